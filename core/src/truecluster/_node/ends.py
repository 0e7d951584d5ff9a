"""The two edges of a stage on this node: offered first, opened later. Blocking."""

from __future__ import annotations

from collections.abc import Callable

from truecluster._wire import messages as wire
from truecluster.api import DeviceContext, Edge, EdgeClosed, EdgeRole, EdgeTerms, NodeError, TransportError

from .transports import Transports


class Unreachable(NodeError):
    """The other end of ``edge`` could not be dialled."""

    def __init__(self, edge: str, message: str) -> None:
        super().__init__(message)
        self.edge = edge


class Ends:
    """`offer` what the assignment doesn't tell to dial; `dial` the rest; `wait` for who dials here."""

    def __init__(
        self,
        assignment: wire.Assignment,
        transports: Transports,
        terms: Callable[[str], EdgeTerms],
        device: DeviceContext,
    ) -> None:
        self._name = assignment.edge_transport
        self._transports = transports
        self._terms = terms
        self._device = device
        self._ids: dict[EdgeRole, str] = {"consumer": assignment.inbound_edge, "producer": assignment.outbound_edge}
        self._dials = assignment.dials
        self._tickets: dict[EdgeRole, bytes] = {}
        self._open: dict[EdgeRole, Edge] = {}

    def offer(self) -> tuple[bytes, bytes]:
        """Tickets of the inbound and the outbound edge, empty where this end dials."""
        edges = self._transports.edges(self._name)
        for role, edge in self._ids.items():
            if edge not in self._dials:
                self._tickets[role] = edges.offer(self._terms(edge), role)
        return self._tickets.get("consumer", b""), self._tickets.get("producer", b"")

    def dial(self, inbound_ticket: bytes, outbound_ticket: bytes) -> None:
        """Open the ends that dial, which waits for nobody. Raises `Unreachable`."""
        tickets: dict[EdgeRole, bytes] = {"consumer": inbound_ticket, "producer": outbound_ticket}
        for role, edge in self._ids.items():
            if edge in self._dials:
                self._dial(role, edge, tickets[role])

    def wait(self) -> tuple[Edge, Edge]:
        """Open the ends that were offered; returns the inbound and the outbound edge."""
        for role, ticket in self._tickets.items():
            self._open[role] = self._opened(role, ticket)
        return self._open["consumer"], self._open["producer"]

    def close(self) -> None:
        """Close what is open, and let nobody else in. Safe to call twice."""
        for edge in self._open.values():
            edge.close()
        for ticket in self._tickets.values():
            self._transports.edges(self._name).withdraw(ticket)

    def abandon(self) -> None:
        """From another thread: make `dial` and `wait` raise."""
        self._transports.discard(self._name)

    def _dial(self, role: EdgeRole, edge: str, ticket: bytes) -> None:
        try:
            self._open[role] = self._opened(role, ticket)
        except EdgeClosed:
            raise
        except TransportError as error:
            raise Unreachable(edge, str(error)) from error

    def _opened(self, role: EdgeRole, ticket: bytes) -> Edge:
        edges = self._transports.edges(self._name)
        return edges.open(self._terms(self._ids[role]), ticket, role, self._device)
