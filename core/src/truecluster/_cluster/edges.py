"""The coordinator's part in a run's edges: its ends of them, the tickets of all, and the relays between nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

import anyio
from anyio.to_thread import run_sync

from truecluster._pipeline.local import local_edge
from truecluster._plan import EdgePlan, Route, RunPlan, StagePlan
from truecluster._wire.handshake import Purpose, prover
from truecluster._wire.limits import UNTIL_STOPPED
from truecluster._wire.messages import Need
from truecluster.api import (
    Edge,
    EdgeBroken,
    EdgeClosed,
    EdgeRole,
    EdgeTerms,
    EdgeTransport,
    TransportError,
)

from .relays import Relays
from .resources import Resources
from .routes import EdgeUnreachable


class OwnEdges:
    """``hosts`` are the coordinator's addresses as its nodes know them, by the index of the stage that a node hosts.

    `offer` first; then what nodes offer goes to `heard`; then `open` and, for each node, `tickets_for`.
    """

    def __init__(self, resources: Resources, plan: RunPlan, hosts: Mapping[int, str]) -> None:
        self._resources = resources
        self._transports = resources.transports
        self._plan = plan
        self._hosts = hosts
        self._tickets: dict[tuple[str, EdgeRole], bytes] = {}
        self._offered: list[tuple[EdgeTransport, bytes]] = []
        self._ends: dict[tuple[str, EdgeRole], Edge] = {}
        self._keeping = threading.Lock()
        self._closed = False
        self._remote: list[tuple[EdgePlan, EdgeRole, int]] = []
        self._relays = Relays()
        for edge in plan.edges:
            self._sort(edge)

    def _sort(self, edge: EdgePlan) -> None:
        """Both ends here: a local edge. One end here: ours to open."""
        far = [stage for stage in (edge.producer, edge.consumer) if stage is not None and stage in self._hosts]
        if not far:
            self._ends[edge.id, "producer"], self._ends[edge.id, "consumer"] = local_edge()
        elif len(far) == 1:
            self._remote.append((edge, "consumer" if edge.producer == far[0] else "producer", far[0]))

    def dialled_by(self, stage: StagePlan) -> tuple[str, ...]:
        """Which of its edges a node's stage dials."""
        ends: list[tuple[str, EdgeRole]] = [(stage.inbound, "consumer"), (stage.outbound, "producer")]
        return tuple(edge for edge, role in ends if self._plan.edge(edge).dials(role))

    def offer(self) -> None:
        """Be ready for every node that dials here."""
        for edge, role, far in self._remote:
            if not edge.dials(role):
                transport = self._transports.edges(edge.transport)
                ticket = transport.offer(self._terms(edge, far), role)
                self._offered.append((transport, ticket))
                self._tickets[edge.id, _other(role)] = ticket
        for edge in self._plan.edges:
            if edge.route is Route.RELAYED:
                self._relay(edge)

    def _relay(self, edge: EdgePlan) -> None:
        assert edge.producer is not None
        assert edge.consumer is not None
        relay = self._transports.edges(edge.transport).relay(
            self._terms(edge, edge.producer), self._terms(edge, edge.consumer)
        )
        self._tickets[edge.id, "producer"] = relay.producer_ticket
        self._tickets[edge.id, "consumer"] = relay.consumer_ticket
        self._relays.start(edge.id, relay)

    def heard(self, stage: StagePlan, need: Need) -> None:
        """Take what a node offers. Raises `EdgeBroken` where it should have offered more."""
        ends: list[tuple[str, EdgeRole, bytes]] = [
            (stage.inbound, "consumer", need.inbound_ticket),
            (stage.outbound, "producer", need.outbound_ticket),
        ]
        for edge, role, ticket in ends:
            if bool(ticket) is self._plan.edge(edge).dials(role):
                raise EdgeBroken(f"node {stage.node} has {'offered' if ticket else 'not offered'} edge {edge}")
            if ticket:
                self._tickets[edge, _other(role)] = ticket

    def tickets_for(self, stage: StagePlan) -> tuple[bytes, bytes]:
        """What a node needs to dial its inbound and its outbound edge, empty where it doesn't dial."""
        return self._tickets.get((stage.inbound, "consumer"), b""), self._tickets.get((stage.outbound, "producer"), b"")

    async def open(self) -> None:
        """Open every end that is here, all at once. Raises `EdgeUnreachable` for a node that can't be dialled."""
        async with anyio.create_task_group() as tasks:
            for edge, role, far in self._remote:
                tasks.start_soon(self._open, edge, role, far)

    async def _open(self, edge: EdgePlan, role: EdgeRole, far: int) -> None:
        transport, dials = self._transports.edges(edge.transport), edge.dials(role)
        ticket = self._tickets[edge.id, role if dials else _other(role)]
        opening = partial(transport.open, self._terms(edge, far), ticket, role, self._resources.device)
        try:
            await run_sync(self._keep, (edge.id, role), opening, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            self._transports.discard(edge.transport)
            raise
        except TransportError as error:
            if not dials or isinstance(error, EdgeClosed):
                raise
            raise EdgeUnreachable(edge.id, f"node {self._plan.stages[far].node} can't be dialled: {error}") from error

    def _keep(self, where: tuple[str, EdgeRole], opening: Callable[[], Edge]) -> None:
        """In a thread that may outlive the run's wait for it."""
        end = opening()
        with self._keeping:
            if not self._closed:
                self._ends[where] = end
                return
        end.close()

    def of_stage(self, stage: StagePlan) -> tuple[Edge, Edge]:
        """The inbound and the outbound end of a stage of the coordinator."""
        return self._ends[stage.inbound, "consumer"], self._ends[stage.outbound, "producer"]

    def of_engine(self) -> tuple[Edge, Edge]:
        """The end that leads to the first stage, and the one that comes from the last."""
        return self._ends[self._plan.edges[0].id, "producer"], self._ends[self._plan.edges[-1].id, "consumer"]

    def close(self) -> None:
        """End every edge and relay, and let nobody else in. Returns when the relays' threads are gone."""
        with self._keeping:
            self._closed = True
        for end in self._ends.values():
            end.close()
        for transport, ticket in self._offered:
            transport.withdraw(ticket)
        self._relays.close()

    def _terms(self, edge: EdgePlan, far: int) -> EdgeTerms:
        """Of an edge to or from a node. No host is advertised: the node dials the one where it has joined."""
        return EdgeTerms(
            edge=edge.id,
            host=self._hosts[far],
            advertised="",
            prove=prover(self._resources.options.key, Purpose.EDGE),
            open_timeout=UNTIL_STOPPED,
            timeout=self._resources.settings.step_timeout,
        )


def _other(role: EdgeRole) -> EdgeRole:
    return "producer" if role == "consumer" else "consumer"
