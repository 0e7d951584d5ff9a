"""The coordinator's service: listens for nodes, plans when enough are there, and makes runs for the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import attrs
from anyio.abc import ByteStream, Listener, TaskGroup
from anyio.from_thread import BlockingPortal
from anyio.to_thread import run_sync

from truecluster._node.devices import Devices
from truecluster._node.errors import one_error
from truecluster._node.transports import Transports
from truecluster._pipeline.build import HandleCache
from truecluster._pipeline.dtypes import offered, pick
from truecluster._pipeline.run import Run
from truecluster._plan import RunPlan, StagePlan, build_plan
from truecluster._registry import Registry
from truecluster._wire.messages import StopReason
from truecluster.api import (
    COORDINATOR,
    DeviceContext,
    Dtypes,
    Limits,
    Placement,
    PlanError,
    TransportError,
    TrueClusterError,
)

from .compat import check_hello, needed_by
from .model import ClusterModel
from .nodes import Nodes, NodeSession
from .packing import pack_all
from .planning import checked_plan, make_planner
from .profile import measure
from .provision import House, Provision, RunSettings
from .report import Report

RETRY_SECONDS = 5.0
"""After a run that could not start, unless nodes come or go."""


@attrs.frozen(kw_only=True)
class ClusterOptions:
    """What the user said of the cluster. ``exact_nodes`` waits for that many; ``None`` for as few as hold the model.

    ``restarts``: after a fault, wait for nodes and make a new run, instead of giving up.
    """

    key: bytes = attrs.field(repr=False)
    transport: str = "tcp"
    planner: str = "even"
    planner_options: Mapping[str, str] = attrs.field(factory=dict)
    limits: Limits = attrs.field(factory=Limits)
    exact_nodes: int | None = None
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
    ) -> None:
        self._registry = registry
        self._model = model
        self._options = options
        self._transports = transports
        self._report = report
        devices = Devices(registry)
        self._device: DeviceContext = devices.open(devices.choose(options.device), options.threads)
        self._planner = make_planner(registry, options.planner, options.planner_options)
        self.settings = RunSettings()
        needed = needed_by(model, registry, options.transport)
        self.nodes = Nodes(key=options.key, check=lambda hello: check_hello(hello, needed))
        self._profile, self._size = measure(model, registry, self._device, self.settings.max_tokens)
        self._packed = anyio.Event()
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self.listening = anyio.Event()
        self._failure: TrueClusterError | None = None
        self._runs = 0
        self._provisions: dict[int, Provision] = {}

    async def serve(self, listener: Listener[ByteStream], portal: BlockingPortal) -> None:
        """Accept nodes and pack weights until cancelled, or until `close`."""
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
        )
        self.listening.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pack)
            tasks.start_soon(listener.serve, self.nodes.accept)
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
        """How many nodes a run waits for, at the least."""
        return self._options.exact_nodes or 1

    def create(self) -> Run | None:
        """See `RunFactory`."""
        return self._house.portal.call(self._create)

    def release(self, run: Run) -> None:
        """See `RunFactory`."""
        self._house.portal.call(self._release, run)

    def _plan(self, sessions: list[NodeSession]) -> list[Placement]:
        profiles = [session.profile() for session in sessions]
        return checked_plan(self._planner, self._options.planner, self._profile, profiles, self._options.limits)

    async def _create(self) -> Run | None:
        while not self._closing.is_set():
            found = await self._enough()
            if found is None:
                break
            try:
                run = await self._unless_closing(self._provision, *found)
                if run is not None:
                    return run
            except TrueClusterError as error:
                if not self._options.restarts:
                    raise
                self._report.say(f"the run could not start: {error}")
                with anyio.move_on_after(RETRY_SECONDS):
                    await _any(self.nodes.changed, self._closing)
        if self._failure is not None:
            raise self._failure
        return None

    async def _unless_closing(self, make: Callable[..., Awaitable[Run]], *arguments: object) -> Run | None:
        """What ``make`` gives, or ``None`` if it is time to stop before it is done."""
        run: Run | None = None
        with one_error():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_first, self._closing, tasks)
                run = await make(*arguments)
                tasks.cancel_scope.cancel()
        return run

    async def _provision(self, sessions: list[NodeSession], placements: list[Placement]) -> Run:
        await self._packed.wait()
        self._runs += 1
        plan = build_plan(
            placements,
            run=self._runs,
            model=self._model.name,
            transport=self._options.transport,
            dtypes=self._dtypes(sessions),
            threads=dict.fromkeys((s.id for s in sessions), self._options.threads),
        )
        provision = Provision(self._house, plan, self._size, {s.id: s for s in sessions})
        try:
            with one_error():
                run = await provision.start()
        except BaseException as error:
            await provision.stop(StopReason.FAULTED)
            if isinstance(error, TransportError) and provision.fault is not None:
                raise provision.fault from error
            raise
        self._provisions[plan.run] = provision
        self._announce(plan, provision)
        return run

    def _dtypes(self, sessions: Sequence[NodeSession]) -> dict[str, Dtypes]:
        """What each node and the coordinator itself compute in, by node id."""
        wanted = self._model.dtype
        own = {COORDINATOR: pick(wanted, offered(self._device))}
        return own | {session.id: pick(wanted, session.hello.dtypes) for session in sessions}

    async def _release(self, run: Run) -> None:
        provision = self._provisions.pop(run.plan.run)
        await provision.stop(StopReason.FAULTED if run.failure else StopReason.COMPLETED)
        if run.failure is not None:
            self._report.say(f"the run failed: {run.failure}")
            if not self._options.restarts:
                self.give_up(run.failure)

    async def _enough(self) -> tuple[list[NodeSession], list[Placement]] | None:
        """The nodes to use and their placements, once there are enough; ``None`` when it is time to stop."""
        while not self._closing.is_set():
            changed, ready = self.nodes.changed, sorted(self.nodes.ready(), key=_by_name)
            found = self._try_plan(ready)
            if found is not None:
                return found
            self._report.say(f"waiting for nodes: {len(ready)} of {self.needed_nodes} are here")
            await _any(changed, self._closing)
        return None

    def _try_plan(self, ready: list[NodeSession]) -> tuple[list[NodeSession], list[Placement]] | None:
        exact = self._options.exact_nodes
        if exact is not None:
            return (ready[:exact], self._plan(ready[:exact])) if len(ready) >= exact else None
        for count in range(1, len(ready) + 1):
            try:
                return ready[:count], self._plan(ready[:count])
            except PlanError as error:
                self._report.say(f"{count} of {len(ready)} nodes: {error}")
        return None

    async def _pack(self) -> None:
        try:
            await run_sync(pack_all, self._model, self._report, self._closing.is_set, abandon_on_cancel=True)
        except TrueClusterError as error:
            self.give_up(error)
        self._packed.set()

    def _announce(self, plan: RunPlan, provision: Provision) -> None:
        for moved in provision.moved:
            stage = next(stage for stage in plan.stages if stage.node == moved.node)
            self._report.say(
                f"{moved.node}: {stage.span} in {named(stage.dtypes)}, "
                f"weights {megabytes(moved.stored)} from its store, {megabytes(moved.sent)} sent"
            )
        spare = sorted(set(self.nodes.joined) - set(plan.nodes))
        if spare:
            self._report.say(f"not needed: {', '.join(spare)}; with --max-nodes the model is split over more")

    def report(self) -> dict[str, Any]:
        """The plan of the latest live run and the bytes that moved, for ``--json``; empty without one."""
        provision = self._provisions.get(self._runs)
        if provision is None:
            return {}
        return {
            "stages": [stage_report(stage) for stage in provision.plan.stages],
            "stored_bytes": sum(m.stored for m in provision.moved),
            "sent_bytes": sum(m.sent for m in provision.moved),
        }


def _by_name(session: NodeSession) -> tuple[int, str]:
    """The same nodes get the same spans at every start, so that what they store serves again."""
    return len(session.id), session.id


def stage_report(stage: StagePlan) -> dict[str, str]:
    """One stage, for ``--json``."""
    dtypes = {"compute_dtype": stage.dtypes.compute.value, "residual_dtype": stage.dtypes.residual.value}
    return {"node": stage.node, "span": str(stage.span), **dtypes}


def named(dtypes: Dtypes) -> str:
    """What a stage computes in, for a reader; its residual where that is another."""
    compute, residual = dtypes.compute.value, dtypes.residual.value
    return compute if compute == residual else f"{compute} with residual {residual}"


def megabytes(count: int) -> str:
    """Bytes for a reader: MB with one decimal."""
    return f"{count / 1e6:.1f} MB"


async def _any(*events: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:
        for event in events:
            tasks.start_soon(_first, event, tasks)


async def _first(event: anyio.Event, tasks: TaskGroup) -> None:
    await event.wait()
    tasks.cancel_scope.cancel()
