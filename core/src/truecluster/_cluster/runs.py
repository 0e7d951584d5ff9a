"""Runs over the nodes that are there, one at a time: planned, provisioned, and torn down."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from anyio.abc import TaskGroup

from truecluster._node.errors import one_error
from truecluster._pipeline.dtypes import offered, pick
from truecluster._pipeline.run import Run
from truecluster._plan import Route, RunPlan, build_plan, wanted_size
from truecluster._wire.messages import StopReason
from truecluster.api import COORDINATOR, Dtypes, PlanMade, TransportError

from . import figures
from .delivery import Moved, together
from .memory import NodeFacts
from .planning import Planned, Planning, make_planner
from .profile import measure
from .provision import Provision
from .resources import Resources
from .routes import EdgeUnreachable, Routes, described, named_ends
from .session import NodeSession


class Runs:
    """`plan`, `start` and `stop`, in turn. ``live`` is the run at work, ``latest`` also one that starts or ends.

    ``context``: tokens that a sequence may have, in the latest run, or in the one that is aimed at.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._planning = _planning(resources)
        self._routes = Routes()
        self._count = 0
        self.context = wanted_size(self._planning.measured, resources.options.room).context
        self.live: Provision | None = None
        self.latest: Provision | None = None
        self._moved_before = together([])

    @property
    def moved(self) -> Moved:
        """What all nodes have loaded so far, in all runs."""
        return together([self._moved_before, *(self.latest.moved if self.latest else [])])

    def plan(self, sessions: Sequence[NodeSession]) -> Planned:
        """Over these nodes. Raises `PlanError`."""
        dtypes = self._dtypes(sessions)
        return self._planning.plan([s.facts() for s in sessions], [dtypes[s.id].compute for s in sessions])

    async def start(self, sessions: Sequence[NodeSession], planned: Planned, tasks: TaskGroup) -> Run:
        """A run that is ready; ``tasks`` watch it until it ends. Raises its first fault.

        Where an end of an edge can't dial the other, the next try takes another route.
        """
        while True:
            plan = self._run_plan(sessions, planned)
            try:
                return await self._try(plan, planned, sessions, tasks)
            except EdgeUnreachable as error:
                self._resources.report.say(self._routes.learn(error, plan, {s.id: s for s in sessions}))

    async def stop(self, run: Run) -> None:
        """Tear a run down that has ended."""
        provision, self.live = self.live, None
        assert provision is not None
        await self._stop(provision, StopReason.FAULTED if run.failure else StopReason.COMPLETED)

    def _run_plan(self, sessions: Sequence[NodeSession], planned: Planned) -> RunPlan:
        self._count += 1
        options, nodes = self._resources.options, {s.id: s for s in sessions}
        return build_plan(
            planned.fitted.placements,
            run=self._count,
            model=self._resources.model.name,
            transport=options.transport,
            dtypes=self._dtypes(sessions),
            threads=dict.fromkeys(nodes, options.threads),
            route=lambda producer, consumer: self._routes.of(nodes.get(producer), nodes.get(consumer)),
        )

    async def _try(self, plan: RunPlan, planned: Planned, sessions: Sequence[NodeSession], tasks: TaskGroup) -> Run:
        resources = self._resources
        if planned.fitted.reduction:
            resources.report.say(planned.fitted.reduction)
        self.context = planned.fitted.size.context
        placements = tuple(planned.fitted.placements)
        resources.events.emit(PlanMade(run=plan.run, model=plan.model, placements=placements))
        provision = self.latest = Provision(resources, plan, planned, {s.id: s for s in sessions})
        try:
            with one_error():
                run = await provision.start()
        except BaseException as error:
            await self._stop(provision, StopReason.FAULTED)
            if isinstance(error, TransportError) and provision.fault is not None:
                raise provision.fault from error
            raise
        self.live = provision
        tasks.start_soon(provision.vigil.steps, run)
        self._announce(provision)
        return run

    async def _stop(self, provision: Provision, reason: StopReason) -> None:
        try:
            await provision.stop(reason)
        finally:
            self._moved_before, self.latest = self.moved, None

    def _dtypes(self, sessions: Sequence[NodeSession]) -> dict[str, Dtypes]:
        """What each node and the coordinator itself compute in, by node id."""
        wanted = self._resources.model.dtype
        own = {COORDINATOR: pick(wanted, offered(self._resources.device))}
        return own | {session.id: pick(wanted, session.hello.dtypes) for session in sessions}

    def _announce(self, provision: Provision) -> None:
        say, plan = self._resources.report.say, provision.plan
        for line in figures.lines(plan, provision.moved):
            say(line)
        for edge in plan.edges:
            if edge.route is not Route.DIRECT:
                say(described(edge.route, *named_ends(plan, edge)))
        say(f"ready: {plan.model} answers")


def _planning(resources: Resources) -> Planning:
    options, device = resources.options, resources.device
    max_tokens, sequences = options.settings.max_tokens, options.room.sequences
    return Planning(
        planner=make_planner(resources.registry, options.planner, options.planner_options),
        name=options.planner,
        measured=measure(resources.model, resources.registry, device, max_tokens, sequences),
        limits=options.limits,
        room=options.room,
        own=NodeFacts(
            id=COORDINATOR, device=device.id, place=(socket.gethostname(), device.id), free=device.memory()[1]
        ),
    )
