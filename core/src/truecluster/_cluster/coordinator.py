"""The coordinator's service: listens for nodes, plans when enough are there, and makes runs for the engine."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import attrs
from anyio.from_thread import BlockingPortal
from anyio.to_thread import run_sync

from truecluster._node.devices import Devices
from truecluster._node.errors import one_error
from truecluster._node.transports import Transports
from truecluster._pipeline.build import HandleCache
from truecluster._pipeline.dtypes import offered, pick
from truecluster._pipeline.run import Run
from truecluster._plan import Room, Route, RunPlan, build_plan, wanted_size
from truecluster._registry import SILENT, Events, Registry
from truecluster._wire.messages import StopReason
from truecluster.api import (
    COORDINATOR,
    DeviceContext,
    Dtypes,
    Limits,
    NodeError,
    PlanMade,
    TransportError,
    TrueClusterError,
)

from . import figures
from .admission import Admission
from .compat import check_hello, needed_by
from .gathering import Found, Gathering
from .memory import NodeFacts
from .model import ClusterModel
from .packing import pack_all
from .planning import Planned, Planning, make_planner
from .profile import measure
from .provision import House, Provision
from .report import Report
from .routes import EdgeUnreachable, Routes, described, named_ends
from .session import NodeSession, by_name
from .settings import RunSettings
from .spares import Spares
from .view import cluster_view
from .waiting import any_of, unless

RETRY_SECONDS = 5.0
"""After a run that could not start, unless nodes come or go."""


@attrs.frozen(kw_only=True)
class ClusterOptions:
    """What the user said of the cluster. ``min_nodes`` are waited for; more only where those can't hold the model.

    ``restarts``: after a fault, wait for nodes and make a new run, instead of giving up.
    """

    key: bytes = attrs.field(repr=False)
    transport: str = "tcp"
    planner: str = "even"
    planner_options: Mapping[str, str] = attrs.field(factory=dict)
    limits: Limits = attrs.field(factory=Limits)
    room: Room = attrs.field(factory=Room)
    min_nodes: int = 1
    settings: RunSettings = attrs.field(factory=RunSettings)
    device: str = "auto"
    threads: int | None = None
    restarts: bool = True


class Coordinator:
    """A `RunFactory`, and the service behind it: `serve` is its task, `create` and `release` are the engine's."""

    def __init__(
        self,
        registry: Registry,
        model: ClusterModel,
        options: ClusterOptions,
        transports: Transports,
        report: Report,
        admission: Admission,
        events: Events = SILENT,
    ) -> None:
        self._registry = registry
        self._model = model
        self._options = options
        self._transports = transports
        self._report = report
        devices = Devices(registry)
        self._device: DeviceContext = devices.open(devices.choose(options.device), options.threads)
        self.settings = options.settings
        self._needed = needed_by(model, registry, options.transport)
        self._admission = admission
        self.nodes = admission.nodes
        self._events = events
        self._planning = self._make_planning()
        self._context = wanted_size(self._planning.measured, options.room).context
        self._gathering = Gathering(self.nodes, self._plan, options.min_nodes, report)
        self._routes = Routes()
        self._spares = Spares(self.nodes, report)
        self._packed = anyio.Event()
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self.listening = anyio.Event()
        self._failure: TrueClusterError | None = None
        self._runs = 0
        self._provisions: dict[int, Provision] = {}

    def _make_planning(self) -> Planning:
        options, place = self._options, (socket.gethostname(), self._device.id)
        measured = measure(self._model, self._registry, self._device, self.settings.max_tokens, options.room.sequences)
        return Planning(
            planner=make_planner(self._registry, options.planner, options.planner_options),
            name=options.planner,
            measured=measured,
            limits=options.limits,
            room=options.room,
            own=NodeFacts(id=COORDINATOR, device=self._device.id, place=place, free=self._device.memory()[1]),
        )

    async def serve(self, portal: BlockingPortal) -> None:
        """Let nodes in and pack weights until cancelled, or until `close`."""
        self._house = House(
            registry=self._registry,
            model=self._model,
            transports=self._transports,
            device=self._device,
            handles=HandleCache(),
            settings=self.settings,
            key=self._options.key,
            portal=portal,
            report=self._report,
            events=self._events,
        )
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._admission.open(lambda hello: check_hello(hello, self._needed))
            self.listening.set()
            tasks.start_soon(self._pack)
            tasks.start_soon(self._spares.watch)
            await self._closed.wait()
            tasks.cancel_scope.cancel()

    def stop_creating(self) -> None:
        """Let `create` return, now and from now on. From the event loop."""
        self._closing.set()

    async def close(self) -> None:
        """Say goodbye to every node, and end `serve`."""
        self._closing.set()
        await self.nodes.farewell()
        self._closed.set()

    def give_up(self, error: TrueClusterError) -> None:
        """Let `create` raise. From the event loop."""
        self._failure = self._failure or error
        self._closing.set()

    @property
    def needed_nodes(self) -> int:
        """How many nodes a run waits for, as far as that can be told."""
        return self._gathering.required

    def create(self) -> Run | None:
        """See `RunFactory`."""
        return self._house.portal.call(self._create)

    def release(self, run: Run) -> None:
        """See `RunFactory`."""
        self._house.portal.call(self._release, run)

    @property
    def context(self) -> int:
        """Tokens that a sequence may have: in the latest run, or in the one that is aimed at."""
        return self._context

    def _plan(self, sessions: Sequence[NodeSession]) -> Planned:
        dtypes = self._dtypes(sessions)
        return self._planning.plan([s.facts() for s in sessions], [dtypes[s.id].compute for s in sessions])

    async def _create(self) -> Run | None:
        while not self._closing.is_set():
            found = await self._enough()
            if found is None:
                break
            try:
                run = await unless(self._closing, self._provision, *found)
                if run is not None:
                    return run
            except TrueClusterError as error:
                if not self._options.restarts:
                    raise
                self._report.say(f"the run could not start: {error}")
                with anyio.move_on_after(RETRY_SECONDS):
                    await any_of(self.nodes.changed, self._closing)
        if self._failure is not None:
            raise self._failure
        return None

    async def _provision(self, sessions: Sequence[NodeSession], planned: Planned) -> Run:
        """Where an end of an edge can't dial the other, the next try takes another route."""
        await self._packed.wait()
        while True:
            plan = self._run_plan(sessions, planned)
            try:
                return await self._try(plan, planned, sessions)
            except EdgeUnreachable as error:
                self._report.say(self._routes.learn(error, plan, {s.id: s for s in sessions}))

    def _run_plan(self, sessions: Sequence[NodeSession], planned: Planned) -> RunPlan:
        self._runs += 1
        nodes = {s.id: s for s in sessions}
        return build_plan(
            planned.fitted.placements,
            run=self._runs,
            model=self._model.name,
            transport=self._options.transport,
            dtypes=self._dtypes(sessions),
            threads=dict.fromkeys((s.id for s in sessions), self._options.threads),
            route=lambda producer, consumer: self._routes.of(nodes.get(producer), nodes.get(consumer)),
        )

    async def _try(self, plan: RunPlan, planned: Planned, sessions: Sequence[NodeSession]) -> Run:
        if planned.fitted.reduction:
            self._report.say(planned.fitted.reduction)
        self._context = planned.fitted.size.context
        placements = tuple(planned.fitted.placements)
        self._events.emit(PlanMade(run=plan.run, model=self._model.name, placements=placements))
        provision = Provision(self._house, plan, planned, {s.id: s for s in sessions})
        try:
            with one_error():
                run = await provision.start()
        except BaseException as error:
            await provision.stop(StopReason.FAULTED)
            if isinstance(error, TransportError) and provision.fault is not None:
                raise provision.fault from error
            raise
        self._provisions[plan.run] = provision
        self._tasks.start_soon(provision.vigil.steps, run)
        self._announce(plan, provision)
        return run

    def _dtypes(self, sessions: Sequence[NodeSession]) -> dict[str, Dtypes]:
        """What each node and the coordinator itself compute in, by node id."""
        wanted = self._model.dtype
        own = {COORDINATOR: pick(wanted, offered(self._device))}
        return own | {session.id: pick(wanted, session.hello.dtypes) for session in sessions}

    async def _release(self, run: Run) -> None:
        self._spares.use(None)
        provision = self._provisions.pop(run.plan.run)
        await provision.stop(StopReason.FAULTED if run.failure else StopReason.COMPLETED)
        if run.failure is not None:
            self._report.say(f"the run failed: {run.failure}")
            if not self._options.restarts:
                self.give_up(run.failure)

    async def _enough(self) -> Found | None:
        """The nodes to use and their plan, once there are enough; ``None`` when it is time to stop."""
        with anyio.move_on_after(None if self._options.restarts else self.settings.ready_timeout):
            while not self._closing.is_set():
                changed, found = self.nodes.changed, self._gathering.now()
                if found is not None:
                    return found
                if self._gathering.trouble is not None and not self._options.restarts:
                    raise self._gathering.trouble  # nobody else will come
                await any_of(changed, self._closing)
            return None
        here, timeout = len(self.nodes.ready()), self.settings.ready_timeout
        raise NodeError(f"{here} of {self.needed_nodes} nodes came within {timeout:g} s (--ready-timeout)")

    async def _pack(self) -> None:
        try:
            await run_sync(pack_all, self._model, self._report, self._closing.is_set, abandon_on_cancel=True)
        except TrueClusterError as error:
            self.give_up(error)
        self._packed.set()

    def _announce(self, plan: RunPlan, provision: Provision) -> None:
        for line in figures.lines(plan, provision.moved):
            self._report.say(line)
        for edge in plan.edges:
            if edge.route is not Route.DIRECT:
                self._report.say(described(edge.route, *named_ends(plan, edge)))
        self._spares.use(plan.nodes)

    def view(self) -> dict[str, Any]:
        """The nodes and the plan at work, for ``GET /cluster``."""
        provision = self._provisions.get(self._runs)
        planned = None if provision is None else provision.planned
        return cluster_view(self._model.name, sorted(self.nodes.ready(), key=by_name), planned)

    def report(self) -> dict[str, Any]:
        """The plan of the latest live run and the bytes that moved, for ``--json``; empty without one."""
        provision = self._provisions.get(self._runs)
        if provision is None:
            return {}
        packed = self._model.catalog.packed_bytes
        return figures.report(provision.plan, provision.weights, provision.moved, packed)
