"""When there are enough nodes: counted by hand over nodes whose plans the test makes up."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from truecluster._cluster.gathering import Gathering
from truecluster._cluster.spares import Spares
from truecluster.api import PlanError


class Said:
    """A report that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class Made:
    """Nodes a, b, c, … with so many bytes each; the model needs ``needed`` of them together."""

    def __init__(self, needed: int, least: int = 1, **memory: int) -> None:
        self.memory = memory
        self.needed = needed
        self.there: list[Any] = []
        self.said = Said()
        nodes: Any = SimpleNamespace(ready=lambda: self.there)
        self.gathering = Gathering(nodes, self.plan, least, self.said)  # type: ignore[arg-type]
        self.spares = Spares(nodes, self.said)  # type: ignore[arg-type]

    def joins(self, *names: str) -> None:
        self.there += [SimpleNamespace(id=name, failures=0, spare=False) for name in names]

    def plan(self, sessions: Sequence[Any]) -> Any:
        there = sum(self.memory.get(session.id, 10) for session in sessions)
        if there < self.needed:
            raise PlanError(f"{self.needed - there} bytes are missing")
        return SimpleNamespace(fitted=SimpleNamespace(reduction=None))

    def found(self) -> str | None:
        found = self.gathering.now()
        return None if found is None else "".join(session.id for session in found[0])


def test_the_minimum_is_waited_for_and_then_enough() -> None:
    made = Made(needed=10, least=2)
    made.joins("b")
    assert made.found() is None
    assert made.found() is None
    made.joins("c", "a")
    assert made.found() == "ab"
    assert made.said.lines == ["waiting for nodes: 1 of 2 are here"]


def test_without_a_minimum_as_few_as_hold_the_model() -> None:
    made = Made(needed=25)
    made.joins("a", "b", "c", "d")
    assert made.found() == "abc"


def test_what_is_missing_is_said_in_bytes() -> None:
    made = Made(needed=25, least=2)
    made.joins("a", "b")
    assert made.found() is None
    assert made.said.lines == ["waiting for another node, 2 are here: 5 bytes are missing"]
    assert made.gathering.required == 3
    made.joins("c")
    assert made.found() == "abc"
    assert made.gathering.required == 2


def test_a_node_that_could_not_load_is_taken_last() -> None:
    made = Made(needed=10)
    made.joins("a", "b")
    made.there[0].failures = 1
    assert made.found() == "b"


def test_spares_are_told_once_and_free_again_with_the_run() -> None:
    made = Made(needed=10)
    made.joins("a", "b")
    made.spares.use(["a"])
    made.joins("c")
    made.spares.use(["a"])
    assert made.said.lines == [
        "not needed now: b waits as a spare for the next run",
        "not needed now: c waits as a spare for the next run",
    ]
    assert [session.spare for session in made.there] == [False, True, True]
    made.spares.use(None)
    assert not any(session.spare for session in made.there)


@pytest.mark.parametrize("least", [1, 2])
def test_the_first_nodes_are_the_same_at_every_start(least: int) -> None:
    for order in ("ab", "ba"):
        made = Made(needed=20, least=least)
        made.joins(*order)
        assert made.found() == "ab"
