"""Options about how many nodes there are, and how long anything is waited for."""

from __future__ import annotations

from typing import Annotated

import typer

from truecluster._cluster.settings import RunSettings
from truecluster.api import RequestError

_DEFAULT = RunSettings()

MinNodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Plan as soon as so many nodes are here and hold the model; later ones wait as spares.  "
        "[default: --max-nodes, else as few as hold the model]",
    ),
]
MaxNodes = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Split over at most so many nodes; without --min-nodes, wait for that many."),
]
ReadyTimeout = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="How long a node may take to get its weights and load them.")
]
StepTimeout = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="How long one step through the stages may take.")
]
StopTimeout = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="How long a stage may take to end when its run is over.")
]
JoinTimeout = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long to look for a coordinator that isn't there yet, or is gone; 0 tries once.",
    ),
]
READY, STEP, STOP = _DEFAULT.ready_timeout, _DEFAULT.step_timeout, _DEFAULT.stop_timeout
JOIN = 600.0


def least(min_nodes: int | None, max_nodes: int | None) -> int:
    """How many nodes a cluster waits for. Raises `RequestError` for a minimum above the maximum."""
    if min_nodes is not None and max_nodes is not None and min_nodes > max_nodes:
        raise RequestError(f"--min-nodes {min_nodes} is more than --max-nodes {max_nodes}; give at most {max_nodes}")
    return min_nodes or max_nodes or 1


def settings(ready: float, step: float, stop: float) -> RunSettings:
    """The seconds that were typed."""
    return RunSettings(ready_timeout=ready, step_timeout=step, stop_timeout=stop)
