"""The stages that the coordinator hosts itself, embed and head: one thread each. Blocking."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from truecluster._pipeline.build import HandleCache, StageFacts, build_stage
from truecluster._pipeline.runner import StageRunner
from truecluster._pipeline.stage import SampleUpdate, Stage
from truecluster._registry import Registry
from truecluster._weights.catalog import Catalog, Unit
from truecluster.api import DeviceContext, Edge, TrueClusterError


@attrs.define(eq=False)
class OwnStages:
    """Built, started and stopped together."""

    registry: Registry
    device: DeviceContext
    catalog: Catalog
    handles: HandleCache
    stages: dict[int, Stage] = attrs.field(factory=dict)
    runners: list[StageRunner] = attrs.field(factory=list)

    def build(self, index: int, facts: StageFacts, progress: Callable[[Unit], None]) -> None:
        """Load the stage ``index`` of the run; ``progress`` is called after each unit."""
        self.stages[index] = build_stage(facts, self.registry, self.device, self.catalog.read, self.handles, progress)

    def start(
        self, run: int, edges: Callable[[int], tuple[Edge, Edge]], on_fault: Callable[[TrueClusterError], object]
    ) -> None:
        """Start every stage's thread; ``edges`` gives its inbound and outbound one."""
        for index, stage in self.stages.items():
            self.runners.append(StageRunner(stage, run, *edges(index), on_fault))
        for runner in self.runners:
            runner.start()

    def update(self, update: SampleUpdate) -> None:
        """Give sampling parameters to the head."""
        for stage in self.stages.values():
            if stage.shape.gives_tokens:
                stage.samples.apply(update)

    def stop(self, timeout: float) -> bool:
        """Says whether every thread ended in time (seconds each)."""
        ended = [runner.stop(timeout) for runner in self.runners]
        return all(ended)
