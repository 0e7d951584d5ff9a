"""The stages that the coordinator hosts itself, embed and head: one thread each. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from truecluster._pipeline.build import StageFacts, build_stage
from truecluster._pipeline.runner import StageRunner
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._pipeline.stage import Stage
from truecluster._plan import RunPlan, StagePlan, StateSize
from truecluster._weights.catalog import Unit
from truecluster.api import COORDINATOR, Edge, TrueClusterError

from .delivery import total_bytes
from .resources import Resources


@attrs.define(eq=False)
class OwnStages:
    """Those of one run: built one by one, started and stopped together."""

    resources: Resources
    plan: RunPlan
    size: StateSize
    stages: dict[int, Stage] = attrs.field(factory=dict)
    runners: list[StageRunner] = attrs.field(factory=list)

    @property
    def plans(self) -> list[StagePlan]:
        """What is to be built."""
        return [stage for stage in self.plan.stages if stage.node == COORDINATOR]

    def build(self, stage: StagePlan, units: Sequence[Unit]) -> None:
        """Load the stage of ``units``."""
        resources, done = self.resources, 0

        def loaded(unit: Unit) -> None:
            nonlocal done
            done += unit.nbytes
            advance(done)

        facts, read = self._facts(stage, units), resources.model.catalog.read
        with resources.report.task(f"loading {stage.span} here", total_bytes(units)) as advance:
            self.stages[stage.index] = build_stage(
                facts, resources.registry, resources.device, read, resources.handles, loaded
            )

    def start(
        self, edges: Callable[[StagePlan], tuple[Edge, Edge]], on_fault: Callable[[TrueClusterError], object]
    ) -> None:
        """Start every stage's thread; ``edges`` gives its inbound and outbound one."""
        for plan in self.plans:
            self.runners.append(StageRunner(self.stages[plan.index], self.plan.run, *edges(plan), on_fault))
        for runner in self.runners:
            runner.start()

    def update(self, update: SampleUpdate) -> None:
        """Give sampling parameters to the head."""
        for stage in self.stages.values():
            if stage.shape.gives_tokens:
                stage.samples.apply(update)

    def stop(self, timeout: float) -> None:
        """Wait for every thread to end (seconds each)."""
        for runner in self.runners:
            runner.stop(timeout)

    def _facts(self, stage: StagePlan, units: Sequence[Unit]) -> StageFacts:
        bound, settings = self.resources.model.bound, self.resources.settings
        return StageFacts(
            span=stage.span,
            architecture=bound.architecture,
            config=bound.config,
            dtypes=stage.dtypes,
            inbound=self.plan.edge(stage.inbound).dtype,
            outbound=self.plan.edge(stage.outbound).dtype,
            units=units,
            pages=self.size.pages,
            sequences=self.size.sequences,
            max_tokens=settings.max_tokens,
            step_timeout=settings.step_timeout,
        )
