"""What an engine counts, against numbers that are known by hand, and how it says that nothing moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from local_runs import LocalFactory, spans
from tiny_models import TinyModel

from truecluster._engine import tally as tallying
from truecluster._engine.engine import Engine
from truecluster._engine.load import Load
from truecluster._engine.requests import CachedEvent, FinishedEvent, Request, TokenEvent
from truecluster._engine.tally import Spread, Tally, Watched

MODEL = TinyModel.make()


def test_a_value_counts_below_the_bounds_that_it_does_not_exceed() -> None:
    spread = Spread((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.5):
        spread.note(value)
    assert (spread.counts, spread.sum) == ([2, 1, 1], 5.5)


def test_one_generation_by_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked at 10 s; tokens at 12, 13 and 15 s; the token that ends it isn't told."""
    clock = iter([12.0, 13.0, 15.0])
    monkeypatch.setattr(tallying, "time", SimpleNamespace(monotonic=lambda: next(clock)))  # nobody else's
    tally = Tally()
    watched = Watched(Request(prompt=(1, 2, 3), max_tokens=9, eos=frozenset({4})), tally, began=10.0)
    for event in (CachedEvent(2), *map(TokenEvent, (7, 8, 9)), FinishedEvent(reason="stop", generated=4)):
        watched.hear(event)
    assert (tally.prompt_tokens, tally.cached_tokens, tally.generated_tokens) == (3, 2, 4)
    assert tally.ended == {"stop": 1, "length": 0, "cancelled": 0, "error": 0}
    assert (tally.first_token.sum, sum(tally.first_token.counts)) == (2.0, 1)
    assert (tally.each_token.sum, sum(tally.each_token.counts)) == (1.5, 1)


def test_a_generation_that_never_began_counts_no_token() -> None:
    tally = Tally()
    watched = Watched(Request(prompt=(1, 2, 3), max_tokens=9, eos=frozenset()), tally)
    watched.hear(FinishedEvent(reason="cancelled", generated=0))
    assert (tally.prompt_tokens, tally.generated_tokens, tally.ended["cancelled"]) == (0, 0, 1)
    assert sum(tally.first_token.counts) == sum(tally.each_token.counts) == 0


@pytest.fixture
def engine() -> Iterator[Callable[..., Engine]]:
    made: list[tuple[Engine, LocalFactory]] = []

    def start(**options: Any) -> Engine:
        layout = spans(MODEL.config.layers, 2, "coordinator")
        factory = LocalFactory(lambda: [MODEL.stage(span) for span in layout], **options)
        made.append((Engine(factory), factory))
        made[-1][0].start()
        return made[-1][0]

    yield start
    for engine, factory in made:
        factory.close()
        engine.stop(20)


def ask(engine: Engine, prompt: list[int], max_tokens: int) -> threading.Event:
    """Set once the answer has ended."""
    ended = threading.Event()
    request = Request(prompt=tuple(prompt), max_tokens=max_tokens, eos=frozenset())
    engine.submit(request, lambda event: ended.set() if isinstance(event, FinishedEvent) else None)
    return ended


def idle(engine: Engine) -> Load:
    """The load of an engine that has come to rest: all of it from then, when nothing changes any more."""
    until = time.monotonic() + 20
    while engine.load.stalled_s is not None and time.monotonic() < until:
        time.sleep(0.005)
    return engine.load


def test_tokens_and_steps_of_real_runs(engine: Callable[..., Engine]) -> None:
    """The prompt's last token gives the first one; each other one goes through by itself; then a step releases."""
    made = engine()
    assert made.wait_ready(20)
    assert ask(made, [5, 6, 7], 8).wait(20)
    load = idle(made)
    assert (load.waiting, load.running, load.pages_held, load.in_flight) == (0, 0, 0, 0)
    assert load.pages > 0
    tally = made.tally
    assert (tally.steps, tally.prompt_tokens, tally.cached_tokens, tally.generated_tokens) == (9, 3, 0, 8)
    assert (tally.ended["length"], sum(tally.first_token.counts), sum(tally.each_token.counts)) == (1, 1, 1)
    long = [int(i * 7 % 61) for i in range(70)]
    for _ in range(2):
        assert ask(made, long, 2).wait(20)
    assert (tally.prompt_tokens, tally.cached_tokens, tally.generated_tokens) == (143, 64, 12)


class _Held:
    """The engine's end of an edge, on which nothing comes before `let`."""

    let = threading.Event()

    def __init__(self, edge: Any) -> None:
        self._edge = edge

    def recv(self, place: Any) -> bytes:
        assert _Held.let.wait(20)
        found: bytes = self._edge.recv(place)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._edge, name)


def test_an_engine_that_waits_for_a_step_says_for_how_long(engine: Callable[..., Engine]) -> None:
    """API-30: and not, where it has nothing to do."""
    _Held.let.clear()
    made = engine(wrap=_Held)
    assert made.wait_ready(20)
    assert made.load.stalled_s is None
    try:
        ended = ask(made, [5, 6, 7], 2)
        until = time.monotonic() + 20
        while ((load := made.load).in_flight == 0 or (load.stalled_s or 0.0) < 0.3) and time.monotonic() < until:
            time.sleep(0.01)
        assert load.stalled_s is not None
        assert load.stalled_s >= 0.3
        assert (load.running, load.in_flight, load.pages_held) == (1, 1, 1)
    finally:
        _Held.let.set()
    assert ended.wait(20)
    assert idle(made).stalled_s is None
