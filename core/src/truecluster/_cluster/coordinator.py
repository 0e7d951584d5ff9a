"""The coordinator's service: lets nodes in, waits until enough are there, and makes runs for the engine."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal
from anyio.to_thread import run_sync

from truecluster._node.devices import Devices
from truecluster._node.transports import Transports
from truecluster._pipeline.run import Run
from truecluster._registry import Registry
from truecluster.api import NodeError, TrueClusterError

from . import figures
from .admission import Admission
from .compat import check_hello, needed_by
from .gathering import Found, Gathering
from .meter import Meter
from .model import ClusterModel
from .packing import pack_all
from .report import Overheard, Report
from .resources import Resources
from .runs import Runs
from .session import by_name
from .settings import ClusterOptions
from .spares import Spares
from .view import edge_views, node_view, plan_view, run_view, stage_views, work
from .waiting import any_of, unless

RETRY_SECONDS = 5.0
"""After a run that could not start, unless nodes come or go."""


class Coordinator:
    """A `RunFactory`, and the service behind it: `serve` is its task, `create` and `release` are the engine's.

    ``portal`` leads to the event loop where it serves; observers hear what ``admission`` tells them of nodes, too.
    """

    _tasks: TaskGroup

    def __init__(
        self,
        registry: Registry,
        model: ClusterModel,
        options: ClusterOptions,
        transports: Transports,
        report: Report,
        admission: Admission,
        portal: BlockingPortal,
    ) -> None:
        devices = Devices(registry)
        self.nodes = admission.nodes
        self._report = report = Overheard(report)
        self._admission = admission
        self._resources = Resources(
            registry=registry,
            model=model,
            options=options,
            transports=transports,
            device=devices.open(devices.choose(options.device), options.threads),
            portal=portal,
            report=report,
            events=self.nodes.events,
        )
        self._needed = needed_by(model, registry, options.transport)
        self._runs = Runs(self._resources)
        self._gathering = Gathering(self.nodes, self._runs.plan, options.min_nodes, report)
        self._spares = Spares(self.nodes, report)
        self._meter = Meter(lambda: work(self._runs.latest) if self._runs.latest else {})
        self._packed = anyio.Event()
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self.listening = anyio.Event()
        self._failure: TrueClusterError | None = None

    async def serve(self) -> None:
        """Let nodes in and pack weights until cancelled, or until `close`."""
        async with anyio.create_task_group() as self._tasks:
            self._admission.open(lambda hello: check_hello(hello, self._needed))
            self.listening.set()
            self._tasks.start_soon(self._pack)
            self._tasks.start_soon(self._spares.watch)
            self._tasks.start_soon(self._meter.watch)
            await self._closed.wait()
            self._tasks.cancel_scope.cancel()

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

    def create(self) -> Run | None:
        """See `RunFactory`."""
        try:
            return self._resources.portal.call(self._create)
        except CancelledError:  # the event loop is leaving in a hurry
            return None

    def release(self, run: Run) -> None:
        """See `RunFactory`."""
        self._resources.portal.call(self._release, run)

    @property
    def running(self) -> bool:
        """Whether a run is at work, or was just said to be; the engine may still be on its way to it."""
        live = self._runs.live
        return live is not None and live.run is not None and not live.run.ended

    @property
    def needed_nodes(self) -> int:
        """How many nodes a run waits for, as far as that can be told."""
        return self._gathering.required

    @property
    def context(self) -> int:
        """Tokens that a sequence may have: in the latest run, or in the one that is aimed at."""
        return self._runs.context

    @property
    def step_timeout(self) -> float:
        """Seconds that a step may take."""
        return self._resources.settings.step_timeout

    def view(self) -> dict[str, Any]:
        """Nodes, stages and edges, what is under way, and what went wrong, as docs/cluster.md has it."""
        live, run, name = self._runs.live, self._runs.latest, self._resources.model.name
        moved = self._runs.moved
        return {
            "model": name,
            "state": run.state.value if run else "waiting" if self._packed.is_set() else "packing",
            "run": run_view(run) if run else None,
            "nodes": [node_view(session, run) for session in sorted(self.nodes.ready(), key=by_name)],
            "stages": stage_views(run, self._meter.rate) if run else [],
            "edges": edge_views(run) if run else [],
            "plan": plan_view(live.planned, name) if live else None,
            "progress": self._report.view(),
            "weights": {"stored": moved.stored, "sent": moved.sent},
            "faults": self.nodes.faults.view(),
        }

    def report(self) -> dict[str, Any]:
        """The plan at work and the bytes that moved, for ``--json``; empty without one."""
        live, packed = self._runs.live, self._resources.model.catalog.packed_bytes
        return figures.report(live.plan, live.weights, live.moved, packed) if live else {}

    async def _create(self) -> Run | None:
        while not self._closing.is_set():
            found = await self._enough()
            if found is None:
                break
            try:
                run = await unless(self._closing, self._start, found)
                if run is not None:
                    return run
            except TrueClusterError as error:
                if not self._resources.options.restarts:
                    raise
                self._tell(f"the run could not start: {error}")
                with anyio.move_on_after(RETRY_SECONDS):
                    await any_of(self.nodes.changed, self._closing)
        if self._failure is not None:
            raise self._failure
        return None

    async def _start(self, found: Found) -> Run:
        await self._packed.wait()
        run = await self._runs.start(*found, self._tasks)
        self._spares.use(run.plan.nodes)
        return run

    async def _release(self, run: Run) -> None:
        self._spares.use(None)
        await self._runs.stop(run)
        if run.failure is not None and self._resources.options.restarts:
            self._tell(f"the run failed: {run.failure}")
        elif run.failure is not None:
            self.give_up(run.failure)  # which is told at the end

    def _tell(self, fault: str) -> None:
        self.nodes.faults.note(fault)
        self._report.say(fault)

    async def _enough(self) -> Found | None:
        """The nodes to use and their plan, once there are enough; ``None`` when it is time to stop."""
        restarts, timeout = self._resources.options.restarts, self._resources.settings.ready_timeout
        with anyio.move_on_after(None if restarts else timeout):
            while not self._closing.is_set():
                changed, found = self.nodes.changed, self._gathering.now()
                if found is not None:
                    return found
                if self._gathering.trouble is not None and not restarts:
                    raise self._gathering.trouble  # nobody else will come
                await any_of(changed, self._closing)
            return None
        here = len(self.nodes.ready())
        raise NodeError(f"{here} of {self.needed_nodes} nodes came within {timeout:g} s (--ready-timeout)")

    async def _pack(self) -> None:
        model, report = self._resources.model, self._resources.report
        try:
            await run_sync(pack_all, model, report, self._closing.is_set, abandon_on_cancel=True)
        except TrueClusterError as error:
            self.give_up(error)
        self._packed.set()
