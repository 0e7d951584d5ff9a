"""Thousands of mixed requests to an engine over a random two-layer model, a fifth of them cancelled midway."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
from local_runs import LocalFactory, spans
from tiny_models import TinyModel

from truecluster._engine.engine import Engine
from truecluster._engine.requests import Event, FinishedEvent, Request, Sampling, TokenEvent

PAGES, SEQUENCES = 24, 8
SHARED = [int(i * 5 % 61) for i in range(70)]
AT_ONCE = 64
"""Requests that are asked for at once, eight times as many as are served."""
TIMEOUT = 120.0


@attrs.define(eq=False)
class Asked:
    """A request and its answer, where that is known; it is cancelled when it has ``cut`` tokens, 0 being before any.

    ``done`` is told of its end.
    """

    request: Request
    right: list[int] | None
    cut: int | None
    done: Callable[[Asked, FinishedEvent], object]
    ids: list[int] = attrs.field(factory=list)
    cancel: Callable[[], None] = lambda: None

    def hear(self, event: Event) -> None:
        if isinstance(event, TokenEvent):
            self.ids.append(event.id)
            if len(self.ids) == self.cut:
                self.cancel()
        elif isinstance(event, FinishedEvent):
            self.done(self, event)


def requests(count: int, chance: random.Random) -> list[Request]:
    """Short and long ones, some with a common beginning, greedy and drawn."""
    made = []
    for number in range(count):
        begin = SHARED[: chance.choice([0, 0, 33, 70])]
        prompt = (*begin, *(chance.randrange(61) for _ in range(chance.choice([1, 3, 12, 40]))))
        drawn = Sampling(temperature=1.0, top_p=0.9, seed=number) if number % 3 == 0 else Sampling()
        eos = frozenset({chance.randrange(61)})
        made.append(Request(prompt=prompt, max_tokens=chance.choice([1, 2, 5, 12, 24]), eos=eos, sampling=drawn))
    return made


@attrs.define(eq=False)
class Soak:
    """``kinds`` are asked for again and again; ``right`` has the answer of each when it is asked alone."""

    engine: Engine
    factory: LocalFactory
    kinds: list[Request]
    right: list[list[int]] = attrs.field(factory=list)
    ends: Counter[str] = attrs.field(factory=Counter)
    wrong: list[tuple[Request, list[int]]] = attrs.field(factory=list)
    _places: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(AT_ONCE))

    @classmethod
    @contextmanager
    def began(cls, chance: random.Random) -> Iterator[Soak]:
        """With what each kind is answered alone."""
        model = TinyModel.make(num_hidden_layers=2, hidden_size=16, intermediate_size=16)
        numbers = {"pages": PAGES, "sequences": SEQUENCES, "max_tokens": 64}
        factory = LocalFactory(lambda: [model.stage(span, **numbers) for span in spans(2, 1)])
        soak = cls(Engine(factory), factory, requests(60, chance))
        soak.engine.start()
        try:
            for kind in soak.kinds:
                soak.right.append(soak._alone(kind))
            yield soak
        finally:
            factory.close()
            soak.engine.stop(20)

    def ask(self, count: int, chance: random.Random) -> None:
        """So many requests; returns when all have ended."""
        for _ in range(count):
            self._enter()
            cut = chance.randrange(6) if chance.random() < 0.3 else None  # a third of these are over before
            kind = chance.randrange(len(self.kinds))
            self._submit(Asked(self.kinds[kind], self.right[kind], cut, self._ended))
        for _ in range(AT_ONCE):
            self._enter()
        for _ in range(AT_ONCE):
            self._places.release()

    def _enter(self) -> None:
        if not self._places.acquire(timeout=TIMEOUT):
            raise TimeoutError(f"no request ended within {TIMEOUT:g} s")

    def _submit(self, asked: Asked) -> None:
        handle = self.engine.submit(asked.request, asked.hear)
        asked.cancel = handle.cancel
        if asked.cut == 0 or asked.cut == len(asked.ids):
            handle.cancel()

    def _ended(self, asked: Asked, end: FinishedEvent) -> None:
        self.ends[end.reason] += 1
        if asked.ids != (asked.right[: len(asked.ids)] if end.reason == "cancelled" else asked.right):
            self.wrong.append((asked.request, asked.ids))
        self._places.release()

    def _alone(self, kind: Request) -> list[int]:
        ended = threading.Event()
        asked = Asked(kind, None, None, lambda asked, end: ended.set())
        self._submit(asked)
        if not ended.wait(TIMEOUT):
            raise TimeoutError(f"an answer didn't come within {TIMEOUT:g} s")
        return asked.ids

    def left(self) -> dict[str, int]:
        """What is still held: by the engine, by its pages, by the stage, by the head."""
        (local,) = self.factory.runs
        stage, scheduler = local.runners[0].stage, self.engine._scheduler
        return {
            "waiting": self.engine.waiting,
            "active": len(scheduler.active),
            "pages": PAGES - scheduler.free_pages,
            "sequences": len(stage.state._sequences),
            "samplers": len(stage.samples._samplers),
            "steps": local.run.in_flight,
        }
