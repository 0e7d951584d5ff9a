"""Runs whose stages are threads of this process, joined by local edges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import attrs
from tiny_models import FP32, TinyModel

from truecluster._engine.engine import Engine
from truecluster._pipeline.local import local_edge
from truecluster._pipeline.machines import RUN, Machine, RunState
from truecluster._pipeline.run import Capacity, Run
from truecluster._pipeline.runner import StageRunner
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._pipeline.stage import Stage
from truecluster._plan import build_plan
from truecluster.api import COORDINATOR, Placement, Span
from truecluster.nn.state import RecurrentState

House = TypeVar("House", bound="EngineHouse")


def spans(layers: int, stages: int, head: str = "last-stage") -> list[Span]:
    """``stages`` spans of blocks, with the ends where ``head`` says."""
    bounds = [round(i * layers / stages) for i in range(stages + 1)]
    if head == "coordinator":
        blocks = [Span(a, b) for a, b in pairwise(bounds)]
        return [Span(0, 0, embed=True), *blocks, Span(layers, layers, head=True)]
    return [Span(a, b, embed=a == 0, head=b == layers) for a, b in pairwise(bounds)]


@attrs.define(eq=False)
class LocalRun:
    """A run that has begun; `stop` ends and joins it."""

    run: Run
    runners: list[StageRunner]

    def stop(self) -> None:
        self.run.complete()
        ended = [runner.stop(10) for runner in self.runners]
        assert all(ended), "a stage's thread didn't end"


def start_run(
    stages: Sequence[Stage],
    number: int = 1,
    wrap: Callable[[Any], Any] = lambda edge: edge,
    update: Callable[[Callable[[SampleUpdate], None]], Callable[[SampleUpdate], None]] = lambda apply: apply,
) -> LocalRun:
    """``wrap`` may replace the engine's two edges, ``update`` the path of sampling parameters to the head."""
    shape = stages[0].shape
    placements = [Placement(COORDINATOR, stage.shape.span) for stage in stages]
    plan = build_plan(placements, run=number, model="tiny", transport="local", dtypes={COORDINATOR: FP32})
    edges = [local_edge() for _ in plan.edges]
    capacity = Capacity(
        pages=stages[0].state.pages,
        sequences=shape.sequences,
        max_tokens=shape.max_tokens,
        context=shape.context,
        cached_starts=not any(isinstance(layer, RecurrentState) for s in stages for layer in s.state.layers.values()),
    )
    machine = Machine(RUN, RunState.RUNNING)
    apply = update(stages[-1].samples.apply)
    run = Run(plan, capacity, wrap(edges[0][0]), wrap(edges[-1][1]), apply, machine)
    runners = [StageRunner(stage, number, edges[i][1], edges[i + 1][0], run.fault) for i, stage in enumerate(stages)]
    for runner in runners:
        runner.start()
    return LocalRun(run, runners)


class LocalFactory:
    """A `RunFactory`: makes a run of fresh stages whenever it is asked, until `close`; ``runs`` keeps all of them."""

    def __init__(self, stages: Callable[[], Sequence[Stage]], most: int | None = None, **options: Any) -> None:
        self.runs: list[LocalRun] = []
        self.released: list[Run] = []
        self._stages = stages
        self._most = most
        self._options = options
        self._closed = threading.Event()

    def create(self) -> Run | None:
        if self._most is not None and len(self.runs) >= self._most:
            self._closed.wait(30)
        if self._closed.is_set():
            return None
        self.runs.append(start_run(self._stages(), len(self.runs) + 1, **self._options))
        return self.runs[-1].run

    def release(self, run: Run) -> None:
        assert run.ended
        next(local for local in self.runs if local.run is run).stop()
        self.released.append(run)

    def close(self) -> None:
        self._closed.set()


class EngineHouse:
    """An engine over runs of a model, until it is closed; ``numbers`` are of the stages, ``options`` of `start_run`."""

    def __init__(
        self, model: TinyModel, stages: int, head: str, numbers: Mapping[str, int] | None = None, **options: Any
    ) -> None:
        layout = spans(model.config.layers, stages, head)
        self.factory = LocalFactory(lambda: [model.stage(span, **(numbers or {})) for span in layout], **options)
        self.engine = Engine(self.factory)
        self.engine.start()

    def close(self) -> None:
        self.factory.close()
        self.engine.stop(30)

    def __enter__(self: House) -> House:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
