"""Two nodes that each take their time for every token, as machines of their own do: streams keep both at work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import Answer, Layout, cluster
from saboteurs import in_every_step, saboteur

from truecluster._engine.engine import Engine
from truecluster._engine.requests import Request

STREAMS = 8
SECONDS = 0.002
"""Of each node for each token."""


def until(condition: Callable[[], bool], seconds: float = 100) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def steps_of(engine: Engine) -> list[tuple[int, int, int]]:
    """From now on, the streams of each step that is sent, how many steps are then under way, and groups found best."""
    seen: list[tuple[int, int, int]] = []
    run = engine._run
    send = run.send

    def noted(step):
        send(step)
        seen.append((len(step.rows), run.in_flight, engine._scheduler._groups._choice(STREAMS).best))

    run.send = noted
    return seen


def _prompt(number: int) -> tuple[int, ...]:
    return tuple(b"Once upon a time" + bytes([65 + number]))


def ask(engine: Engine, count: int, most: int) -> list[Answer]:
    answers = [Answer() for _ in range(count)]
    for number, answer in enumerate(answers):
        engine.submit(Request(prompt=_prompt(number), max_tokens=most, eos=frozenset()), answer.hear)
    return answers


def test_streams_go_in_groups_where_stages_take_their_time_apart(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one group every stage rests half of the time or more; which groups there are changes no token."""
    (path,) = saboteur(tmp_path / "site", in_every_step(SECONDS)).values()
    monkeypatch.setenv("PYTHONPATH", path)
    with cluster(tiny, tmp_path / "weights", Layout(nodes=2, transport="tcp")) as made:
        engine = Engine(made.coordinator)
        engine.start()
        try:
            assert engine.wait_ready(60)
            seen = steps_of(engine)
            answers = ask(engine, STREAMS, 1000)
            assert until(lambda: bool(seen) and seen[-1][2] >= 2), "it was never found out"
            began = next(number for number, (*_, best) in enumerate(seen) if best >= 2)
            assert until(lambda: len(seen) >= began + 60)
        finally:
            engine.stop(20)
        settled = seen[began + 20 : began + 60]
        assert {rows for rows, *_ in settled} == {STREAMS // 2}
        assert max(under_way for _, under_way, _ in settled) == 2
        assert (STREAMS, 1, 1) in seen[:began], "it began with one group"
        found = answers[0].ids
        assert len(found) > 150
        assert made.answer([_prompt(0)], len(found))[0] == found
