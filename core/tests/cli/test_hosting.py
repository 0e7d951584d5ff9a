"""What a coordinator at work says of its health."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from truecluster._cli.hosting import Hosted
from truecluster._engine.load import Load
from truecluster._serve import Readiness
from truecluster.api import NodeError


def hosted(stalled: float | None, ready: bool = True, failure: Exception | None = None) -> Hosted:
    """With one of two nodes, whose steps may take 60 seconds."""
    nodes = SimpleNamespace(ready=lambda: ["a"])
    coordinator: Any = SimpleNamespace(nodes=nodes, needed_nodes=2, step_timeout=60.0, running=ready)
    engine: Any = SimpleNamespace(failure=failure, load=Load(waiting=0, stalled_s=stalled))
    nothing: Any = None
    return Hosted(nothing, nothing, coordinator, engine, nothing, ("127.0.0.1", 7001))


@pytest.mark.parametrize(("stalled", "ready"), [(None, True), (0.5, True), (60.0, True), (60.5, False)])
def test_with_a_step_for_longer_than_one_may_take_it_is_alive_and_not_ready(stalled: float | None, ready: bool) -> None:
    """API-30."""
    expected = Readiness(alive=True, ready=ready, required=2, connected=1, stalled_seconds=stalled)
    assert hosted(stalled).ready() == expected


def test_an_engine_that_gave_up_is_not_alive() -> None:
    found = hosted(None, ready=False, failure=NodeError("gone")).ready()
    assert (found.alive, found.ready) == (False, False)
