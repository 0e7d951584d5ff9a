"""What the user said of a cluster and of its runs. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from truecluster._plan import Room
from truecluster.api import Limits


@attrs.frozen(kw_only=True)
class RunSettings:
    """Tokens per step, and seconds: for a node to load, for a step to be answered, for a stage to end."""

    max_tokens: int = 256
    ready_timeout: float = 600.0
    step_timeout: float = 60.0
    stop_timeout: float = 10.0


@attrs.frozen(kw_only=True)
class ClusterOptions:
    """``min_nodes`` are waited for; more only where those can't hold the model.

    ``restarts``: after a fault, wait for nodes and make a new run, instead of giving up.
    """

    key: bytes = attrs.field(repr=False)
    transport: str = "tcp"
    planner: str = "even"
    planner_options: Mapping[str, str] = attrs.field(factory=dict)
    limits: Limits = attrs.field(factory=Limits)
    room: Room = attrs.field(factory=Room)
    min_nodes: int = 1
    settings: RunSettings = attrs.field(factory=RunSettings)
    device: str = "auto"
    threads: int | None = None
    restarts: bool = True
