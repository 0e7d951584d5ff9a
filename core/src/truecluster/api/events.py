"""What happens in a cluster, as ``truecluster_event`` hooks of the coordinator's process are told: a closed list.

Sizes are in bytes and times in seconds.
"""

from __future__ import annotations

import attrs

from .planner import Placement


@attrs.frozen(kw_only=True)
class NodeJoined:
    """A node can be planned for; ``memory`` is what it may use, ``None`` if unknown."""

    node: str
    device: str
    memory: int | None


@attrs.frozen(kw_only=True)
class NodeLost:
    """A node that had joined is gone, without having been told to go."""

    node: str
    reason: str


@attrs.frozen(kw_only=True)
class NodeRefused:
    """A node that came was turned away; ``node`` is ``None`` where it hadn't proven the key."""

    node: str | None
    reason: str


@attrs.frozen(kw_only=True)
class PlanMade:
    """A run has been planned: its spans in order, and the nodes that host them."""

    run: int
    model: str
    placements: tuple[Placement, ...]


@attrs.frozen(kw_only=True)
class WeightsProgress:
    """Of ``total`` bytes of weights that a node lacked, so many are ``done``: told at times, and at the end."""

    run: int
    node: str
    done: int
    total: int


@attrs.frozen(kw_only=True)
class RunStateChanged:
    """A planned run went on: provisioning, waiting-ready, running, completed or faulted, tearing-down, done."""

    run: int
    state: str


@attrs.frozen(kw_only=True)
class RequestFinished:
    """A request ended with ``stop``, ``length``, ``cancelled`` or ``error``, ``seconds`` after it was submitted.

    ``message`` says what failed.
    """

    reason: str
    prompt_tokens: int
    generated_tokens: int
    seconds: float
    message: str | None = None


Event = NodeJoined | NodeLost | NodeRefused | PlanMade | WeightsProgress | RunStateChanged | RequestFinished
