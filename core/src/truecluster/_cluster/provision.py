"""From a plan to a run that is ready, and the way back: assign, learn what is needed, push, open edges, start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import anyio
from anyio.to_thread import run_sync

from truecluster._pipeline.machines import RUN, Machine, RunState
from truecluster._pipeline.run import Capacity, Run
from truecluster._pipeline.runner import Progress
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._plan import RunPlan
from truecluster._weights.catalog import Unit
from truecluster._wire import messages as wire
from truecluster.api import COORDINATOR, RunStateChanged, TrueClusterError

from .assignment import assignment
from .delivery import Delivery, Moved, all_in_time, total_bytes
from .edges import OwnEdges
from .own import OwnStages
from .planning import Planned
from .remote import RemoteStage
from .resources import Resources
from .session import NodeSession
from .vigil import Vigil


class Provision:
    """One run's stages and edges. `start` once; `stop` once, whether or not it started."""

    def __init__(
        self, resources: Resources, plan: RunPlan, planned: Planned, sessions: Mapping[str, NodeSession]
    ) -> None:
        self.plan = plan
        self.planned = planned
        self.run: Run | None = None
        self.moved: list[Moved] = []
        self.weights: dict[int, int] = {}
        """Bytes by stage."""
        self._resources = resources
        self._machine = Machine(RUN, RunState.PLANNING, self._went_on)
        self._size = planned.fitted.size
        self._pages = self._size.pages
        self._remote = {
            s.index: RemoteStage(sessions[s.node], plan.run, s) for s in plan.stages if s.node != COORDINATOR
        }
        self.vigil = Vigil([remote.session for remote in self._remote.values()], resources.settings)
        self._own = OwnStages(resources, plan, self._size)
        self._pushed = anyio.Semaphore(0)
        hosts = {index: remote.session.local_host for index, remote in self._remote.items()}
        self._edges = OwnEdges(resources, plan, hosts)

    async def start(self) -> Run:
        """Everything up to the readiness barrier. Raises the first fault."""
        self._machine.to(RunState.PROVISIONING)
        self.vigil.loading()
        units = {stage.index: await run_sync(self._resources.model.units, stage.span) for stage in self.plan.stages}
        self.weights = {index: total_bytes(each) for index, each in units.items()}
        self._edges.offer()
        deliveries = [
            Delivery(remote=remote, units=units[index], resources=self._resources)
            for index, remote in self._remote.items()
        ]
        await self._load_all(deliveries, await self._assign_all(deliveries), units)
        run = self.run = self._make_run()
        self._own.start(self._edges.of_stage, run.fault)
        for remote in self._remote.values():
            remote.watch(run.fault)
        return run

    @property
    def fault(self) -> TrueClusterError | None:
        """What a node said or did; an edge that can't be opened is often only what follows from it."""
        return next((remote.fault for remote in self._remote.values() if remote.fault is not None), None)

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self._machine.state

    @property
    def progress(self) -> list[Progress]:
        """How far each stage is, as far as that is known here."""
        own = {stage.index: runner.progress for stage, runner in zip(self._own.plans, self._own.runners, strict=False)}
        remote = {index: stage.progress for index, stage in self._remote.items()}
        return [(own | remote).get(stage.index, Progress()) for stage in self.plan.stages]

    async def stop(self, reason: wire.StopReason) -> None:
        """Tell every node, end the own stages, and wait until all is quiet or the time is up."""
        self._machine.try_to(RunState.FAULTED)
        self._machine.to(RunState.TEARING_DOWN)
        self.vigil.stopping()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for remote in self._remote.values():
                    tasks.start_soon(self._stop_remote, remote, reason)
                tasks.start_soon(run_sync, self._own.stop, self._resources.settings.stop_timeout)
            self._edges.close()
        self.vigil.over()
        self._machine.to(RunState.DONE)

    def _went_on(self, state: RunState) -> None:
        self._resources.events.emit(RunStateChanged(run=self.plan.run, state=state.value))

    async def _assign_all(self, deliveries: Sequence[Delivery]) -> list[wire.Need]:
        """Returns what each node needs."""
        needs: dict[str, wire.Need] = {}

        async def assign(delivery: Delivery) -> None:
            stage = delivery.remote.plan
            message = assignment(delivery, self.plan, self._size, self._edges.dialled_by(stage))
            await delivery.remote.session.control.send(message)
            needs[stage.node] = await delivery.need()
            self._edges.heard(stage, needs[stage.node])

        async with anyio.create_task_group() as tasks:
            for delivery in deliveries:
                tasks.start_soon(assign, delivery)
        return [needs[delivery.node] for delivery in deliveries]

    async def _load_all(
        self, deliveries: Sequence[Delivery], needs: Sequence[wire.Need], units: Mapping[int, Sequence[Unit]]
    ) -> None:
        """The nodes and the coordinator at once. Returns when every stage is loaded and every edge open."""
        self._machine.to(RunState.WAITING_READY)
        async with anyio.create_task_group() as clock:
            clock.start_soon(all_in_time, deliveries, self._pushed, self._resources.settings.ready_timeout)
            async with anyio.create_task_group() as tasks:
                for delivery, need in zip(deliveries, needs, strict=True):
                    tasks.start_soon(self._load, delivery, need)
                tasks.start_soon(self._load_own, units)
            clock.cancel_scope.cancel()

    async def _load(self, delivery: Delivery, need: wire.Need) -> None:
        sent = await delivery.push(need, *self._edges.tickets_for(delivery.remote.plan))
        self._pushed.release()
        ready, moved = await delivery.loaded(sent)
        self._pages = min(self._pages, ready.pages_capacity)
        self.moved.append(moved)

    async def _load_own(self, units: Mapping[int, Sequence[Unit]]) -> None:
        for stage in self._own.plans:
            await run_sync(self._own.build, stage, units[stage.index])
        await self._edges.open()

    def _make_run(self) -> Run:
        capacity = Capacity(
            pages=self._pages,
            sequences=self._size.sequences,
            max_tokens=self._resources.settings.max_tokens,
            context=self._size.of(self._pages).context,
            cached_starts=self._resources.model.cached_starts,
        )
        self._machine.to(RunState.RUNNING)
        return Run(self.plan, capacity, *self._edges.of_engine(), self._updater(), self._machine)

    def _updater(self) -> Callable[[SampleUpdate], object]:
        """What gives sampling parameters to the head, from any thread."""
        head = self._remote.get(self.plan.stages[-1].index)
        return self._own.update if head is None else partial(self._resources.portal.start_task_soon, head.sample)

    async def _stop_remote(self, remote: RemoteStage, reason: wire.StopReason) -> None:
        try:
            await remote.stop(reason, self._resources.settings.stop_timeout)
        except Exception as error:
            if remote.fault is None:
                self._resources.report.say(str(error))
