"""From a plan to a run that is ready, and the way back: assign, learn what is needed, push, open edges, start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import anyio
import attrs
from anyio.from_thread import BlockingPortal
from anyio.to_thread import run_sync

from truecluster._node.transports import Transports
from truecluster._pipeline.build import HandleCache, StageFacts
from truecluster._pipeline.machines import RUN, Machine, RunState
from truecluster._pipeline.run import Capacity, Run
from truecluster._pipeline.stage import SampleUpdate
from truecluster._plan import EdgePlan, RunPlan, StagePlan
from truecluster._registry import Events, Registry
from truecluster._weights.catalog import Unit
from truecluster._wire import messages as wire
from truecluster._wire.connection import Connection
from truecluster._wire.handshake import Purpose, prover
from truecluster._wire.limits import UNTIL_STOPPED
from truecluster.api import (
    COORDINATOR,
    DeviceContext,
    EdgeTerms,
    NodeError,
    RunStateChanged,
    TransportError,
    TrueClusterError,
)

from .delivery import Delivery, Moved, total_bytes
from .edges import OwnEdges
from .model import ClusterModel
from .own import OwnStages
from .planning import Planned
from .remote import RemoteStage
from .report import Report
from .session import NodeSession
from .settings import RunSettings
from .vigil import Vigil


@attrs.frozen(kw_only=True, eq=False)
class House:
    """What a coordinator has for all its runs."""

    registry: Registry
    model: ClusterModel
    transports: Transports
    device: DeviceContext
    handles: HandleCache
    settings: RunSettings
    key: bytes = attrs.field(repr=False)
    portal: BlockingPortal
    report: Report
    events: Events


class Provision:
    """One run's stages and edges. `start` once; `stop` once, whether or not it started."""

    def __init__(self, house: House, plan: RunPlan, planned: Planned, sessions: Mapping[str, NodeSession]) -> None:
        self.plan = plan
        self.moved: list[Moved] = []
        self.weights: dict[int, int] = {}
        """Bytes by stage."""
        self.machine = Machine(RUN, RunState.PLANNING, self._went_on)
        self._house = house
        self.planned = planned
        self._size = planned.fitted.size
        self._pages = self._size.pages
        self._remote = {
            s.index: RemoteStage(sessions[s.node], plan.run, s) for s in plan.stages if s.node != COORDINATOR
        }
        self.vigil = Vigil([remote.session for remote in self._remote.values()], house.settings)
        self._own = OwnStages(house.registry, house.device, house.model.catalog, house.handles)
        self._pushed = anyio.Semaphore(0)
        self._edges = OwnEdges(plan, house.transports, house.device, self._terms)

    async def start(self) -> Run:
        """Everything up to the readiness barrier. Raises the first fault."""
        self.machine.to(RunState.PROVISIONING)
        self.vigil.loading()
        units = {stage.index: await run_sync(self._units, stage) for stage in self.plan.stages}
        self.weights = {index: total_bytes(each) for index, each in units.items()}
        self._edges.offer()
        needs: dict[int, wire.Need] = {}
        async with anyio.create_task_group() as tasks:
            for index, remote in self._remote.items():
                tasks.start_soon(self._assign, index, remote, units[index], needs)
        self.machine.to(RunState.WAITING_READY)
        async with anyio.create_task_group() as clock:
            clock.start_soon(self._in_time, units)
            async with anyio.create_task_group() as tasks:
                for index, remote in self._remote.items():
                    tasks.start_soon(self._load, remote, units[index], needs[index])
                tasks.start_soon(self._start_own, units)
            clock.cancel_scope.cancel()
        run = self._make_run()
        self._own.start(self.plan.run, lambda index: self._edges.of_stage(self.plan.stages[index]), run.fault)
        for remote in self._remote.values():
            remote.watch(run.fault)
        return run

    def _went_on(self, state: RunState) -> None:
        self._house.events.emit(RunStateChanged(run=self.plan.run, state=state.value))

    @property
    def fault(self) -> TrueClusterError | None:
        """What a node said or did; an edge that can't be opened is often only what follows from it."""
        return next((remote.fault for remote in self._remote.values() if remote.fault is not None), None)

    async def stop(self, reason: wire.StopReason) -> None:
        """Tell every node, end the own stages, and wait until all is quiet or the time is up."""
        self.machine.try_to(RunState.FAULTED)
        self.machine.to(RunState.TEARING_DOWN)
        self.vigil.stopping()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for remote in self._remote.values():
                    tasks.start_soon(self._stop_remote, remote, reason)
                tasks.start_soon(run_sync, self._own.stop, self._house.settings.stop_timeout)
            self._edges.close()
        self.vigil.over()
        self.machine.to(RunState.DONE)

    def _units(self, stage: StagePlan) -> list[Unit]:
        bound = self._house.model.bound
        slots = [slot for part in stage.span.parts() for slot in bound.architecture.slots(bound.config, part)]
        return self._house.model.catalog.units(slots)

    def _terms(self, edge: EdgePlan, far: int) -> EdgeTerms:
        """Of an edge to or from a node. No host is advertised: the node dials the one where it has joined."""
        return EdgeTerms(
            edge=edge.id,
            host=self._remote[far].session.local_host,
            advertised="",
            prove=prover(self._house.key, Purpose.EDGE),
            open_timeout=UNTIL_STOPPED,
            timeout=self._house.settings.step_timeout,
        )

    async def _assign(
        self, index: int, remote: RemoteStage, units: Sequence[Unit], needs: dict[int, wire.Need]
    ) -> None:
        await remote.session.control.send(self._assignment(remote, units))
        needs[index] = await self._delivery(remote, units).need()
        self._edges.heard(remote.plan, needs[index])

    def _assignment(self, remote: RemoteStage, units: Sequence[Unit]) -> wire.Assignment:
        bound, settings, stage = self._house.model.bound, self._house.settings, remote.plan
        return wire.Assignment(
            run=self.plan.run,
            model_name=self._house.model.name,
            architecture=bound.architecture_name,
            config=bound.raw,
            span=stage.span,
            stage=stage.index,
            stages=stage.count,
            units=tuple(map(_wire_unit, units)),
            compute_dtype=stage.dtypes.compute,
            residual_dtype=stage.dtypes.residual,
            threads=stage.threads,
            pages=self._size.pages,
            sequences=self._size.sequences,
            edge_transport=self.plan.edge(stage.inbound).transport,
            inbound_edge=stage.inbound,
            outbound_edge=stage.outbound,
            dials=self._edges.dialled_by(stage),
            inbound_dtype=self.plan.edge(stage.inbound).dtype,
            outbound_dtype=self.plan.edge(stage.outbound).dtype,
            device=remote.session.device,
            step_timeout_s=settings.step_timeout,
            stop_timeout_s=settings.stop_timeout,
            max_step_tokens=settings.max_tokens,
        )

    async def _load(self, remote: RemoteStage, units: Sequence[Unit], need: wire.Need) -> None:
        delivery = self._delivery(remote, units)
        sent = await delivery.push(need, *self._edges.tickets_for(remote.plan))
        self._pushed.release()
        ready, moved = await delivery.loaded(sent)
        self._pages = min(self._pages, ready.pages_capacity)
        self.moved.append(moved)

    async def _in_time(self, units: Mapping[int, Sequence[Unit]]) -> None:
        """Raise once every node has had its weights for so long, and one isn't ready.

        Sending takes as long as it takes: a connection on which nothing moves breaks by itself.
        """
        for _ in self._remote:
            await self._pushed.acquire()
        timeout = self._house.settings.ready_timeout
        await anyio.sleep(timeout)
        late = [remote for remote in self._remote.values() if not remote.has_said(wire.LoadComplete)]
        for remote in late:
            remote.session.failures += 1
        raise NodeError(
            f"not ready {timeout:g} s after all weights were sent: {', '.join(_loaded(r, units) for r in late)}; "
            "if that is only slow, raise --ready-timeout"
        )

    def _delivery(self, remote: RemoteStage, units: Sequence[Unit]) -> Delivery:
        house = self._house
        return Delivery(
            remote=remote,
            units=units,
            catalog=house.model.catalog,
            report=house.report,
            events=house.events,
            timeout=house.settings.ready_timeout,
        )

    async def _start_own(self, units: Mapping[int, Sequence[Unit]]) -> None:
        for stage in self.plan.stages:
            if stage.node == COORDINATOR:
                await run_sync(self._build_own, stage, units[stage.index])
        await self._edges.open()

    def _build_own(self, stage: StagePlan, units: Sequence[Unit]) -> None:
        done = 0

        def loaded(unit: Unit) -> None:
            nonlocal done
            done += unit.nbytes
            advance(done)

        with self._house.report.task(f"loading {stage.span} here", total_bytes(units)) as advance:
            self._own.build(stage.index, self._facts(stage, units), loaded)

    def _facts(self, stage: StagePlan, units: Sequence[Unit]) -> StageFacts:
        bound, settings = self._house.model.bound, self._house.settings
        return StageFacts(
            span=stage.span,
            architecture=bound.architecture,
            config=bound.config,
            dtypes=stage.dtypes,
            inbound=self.plan.edge(stage.inbound).dtype,
            outbound=self.plan.edge(stage.outbound).dtype,
            units=units,
            pages=self._size.pages,
            sequences=self._size.sequences,
            max_tokens=settings.max_tokens,
            step_timeout=settings.step_timeout,
        )

    def _make_run(self) -> Run:
        capacity = Capacity(
            pages=self._pages,
            sequences=self._size.sequences,
            max_tokens=self._house.settings.max_tokens,
            context=self._size.of(self._pages).context,
        )
        self.machine.to(RunState.RUNNING)
        return Run(self.plan, capacity, *self._edges.of_engine(), self._updater(), self.machine)

    def _updater(self) -> Callable[[SampleUpdate], None]:
        head = self.plan.stages[-1].index
        if head not in self._remote:
            return self._own.update
        control = self._remote[head].session.control

        def send(update: SampleUpdate) -> None:
            params = update.params
            message = wire.Sample(
                run=self.plan.run,
                number=update.number,
                sequence=update.sequence,
                temperature=params.temperature,
                top_p=params.top_p,
                seed=params.seed,
                choice=params.choice,
            )
            self._house.portal.start_task_soon(_send_quietly, control, message)

        return send

    async def _stop_remote(self, remote: RemoteStage, reason: wire.StopReason) -> None:
        if remote.session.lost is not None:
            return
        try:
            await remote.session.control.send(wire.StopRun(run=self.plan.run, reason=reason))
            await remote.expect(wire.StageStopped, self._house.settings.stop_timeout)
        except TransportError as error:
            remote.session.lose(str(error))
        except Exception as error:
            if remote.fault is None:
                self._house.report.say(str(error))


def _loaded(remote: RemoteStage, units: Mapping[int, Sequence[Unit]]) -> str:
    done, total = remote.session.done_bytes / 1e6, total_bytes(units[remote.plan.index]) / 1e6
    return f"node {remote.session.id} has loaded {done:.1f} of {total:.1f} MB"


def _wire_unit(unit: Unit) -> wire.Unit:
    slot = unit.slot
    return wire.Unit(
        key=slot.key, role=slot.role, shape=slot.shape, format=unit.format, hash=unit.digest, nbytes=unit.nbytes
    )


async def _send_quietly(control: Connection, message: wire.Sample) -> None:
    """A lost control connection is noticed by its listener; the step that waits for this message times out."""
    try:
        await control.send(message)
    except TransportError:
        return
