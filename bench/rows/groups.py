"""What several groups in flight give where stages are on machines of their own, and cost where they share one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tools.figures import Figure, Settings

sys.path.append(str(Path(__file__).parents[2] / "core" / "tests" / "helpers"))

from local_runs import LocalFactory, spans
from tiny_models import TinyModel

from truecluster._engine import scheduler
from truecluster._engine.engine import Engine
from truecluster._engine.groups import Groups
from truecluster._engine.requests import Event, Request, TokenEvent
from truecluster._pipeline.stage import Stage

STREAMS, STAGES = 8, 2
BEFORE, COUNTED = 1360, 480
"""Tokens of all streams: until what pays is found, and after."""
STEP, TOKEN = 0.004, 0.003
"""Seconds of a stage, asleep: eight streams in one group take 2 (4 + 24) ms, in two groups 2 * 4 + 24 ms."""
TARGET = 1.3


def groups(settings: Settings) -> Iterator[Figure]:
    """Eight streams over two stages that sleep 4 ms a step and 3 ms a token, apart or in turns; against one group."""
    for name, lock, target in (("machines apart", None, TARGET), ("one machine", threading.Lock(), 0.95)):
        one, free = _rate(1, lock), _rate(STAGES, lock)
        yield Figure(name=f"eight streams, {name}, one group", samples=[one], unit="tok/s")
        yield Figure(name=f"eight streams, {name}, as measured", samples=[free], unit="tok/s")
        yield Figure(name=f"groups / one group, {name}", samples=[free / one], unit="", target=target)


def _rate(most: int, lock: threading.Lock | None) -> float:
    """Tokens a second with up to so many groups; stages that share a ``lock`` share a machine."""
    model = TinyModel.make(num_hidden_layers=2, hidden_size=16, intermediate_size=16)
    layout = spans(2, STAGES)
    factory = LocalFactory(lambda: [_asleep(model.stage(span, pages=400, sequences=STREAMS), lock) for span in layout])
    came = _Count(BEFORE + COUNTED)
    with mock.patch.object(scheduler, "Groups", return_value=Groups(most)):
        engine = Engine(factory)
        engine.start()
        try:
            for number in range(STREAMS):
                request = Request(prompt=(number + 1, 5, 6), max_tokens=260, eos=frozenset())
                engine.submit(request, came.hear)
            return came.rate()
        finally:
            factory.close()
            engine.stop(20)


def _asleep(stage: Stage, lock: threading.Lock | None) -> Stage:
    whole = stage.execute

    def execute(header, payload):  # type: ignore[no-untyped-def]
        seconds = STEP + TOKEN * len(payload)
        if lock is None:
            time.sleep(seconds)
        else:
            with lock:
                time.sleep(seconds)
        return whole(header, payload)

    stage.execute = execute  # type: ignore[method-assign]
    return stage


class _Count:
    """When the tokens came."""

    def __init__(self, most: int) -> None:
        self._times: list[float] = []
        self._most = most
        self._full = threading.Event()

    def hear(self, event: Event) -> None:
        if isinstance(event, TokenEvent):
            self._times.append(time.perf_counter())
            if len(self._times) == self._most:
                self._full.set()

    def rate(self) -> float:
        if not self._full.wait(120):
            raise SystemExit("the streams didn't go on")
        return COUNTED / (self._times[self._most - 1] - self._times[BEFORE - 1])
