"""Edges: one end listens, the other dials, proves the key and shows its ticket's secret."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

from truecluster.api import (
    AddressError,
    Edge,
    EdgeClosed,
    EdgeRole,
    EdgeTerms,
    EdgeTransport,
    HandshakeError,
    TransportError,
)

from . import tickets
from .deadline import Deadline, Talk
from .dialling import ADMITTED, REFUSED, Dialler
from .doorway import Doorway
from .edge import TcpEdge
from .offers import Offer
from .relay import TcpRelay
from .sockets import bind

if TYPE_CHECKING:
    from truecluster.api import DeviceContext

_PROOF_S = 10.0
_UNSPECIFIED = ("0.0.0.0", "::")


class TcpEdges(EdgeTransport):
    """Edges over TCP. All offers of one object are made with the same key: a dialer is proven before it says more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offers: dict[bytes, Offer] = {}
        self._doorways: dict[tuple[str, int], Doorway] = {}
        self._relays: WeakSet[TcpRelay] = WeakSet()
        self._dialler = Dialler()
        self._closed = False

    def offer(self, terms: EdgeTerms, role: EdgeRole = "consumer") -> bytes:
        return self._offer(terms, role).encode()

    def open(self, terms: EdgeTerms, ticket: bytes, role: EdgeRole, device: DeviceContext | None) -> Edge:
        found = tickets.decode(ticket)
        sock = self._await(terms, found) if found.offered_by == role else self._dialler.dial(terms, found)
        return TcpEdge(sock, terms, device)

    def withdraw(self, ticket: bytes) -> None:
        with self._lock:
            offer = self._offers.pop(tickets.decode(ticket).secret, None)
        if offer is not None:
            offer.withdraw()

    def relay(self, producer: EdgeTerms, consumer: EdgeTerms) -> TcpRelay:
        tickets = self._offer(producer, "consumer"), self._offer(consumer, "producer")
        relay = TcpRelay(producer, *tickets, self._await, self.withdraw)
        with self._lock:
            self._check(producer)
            self._relays.add(relay)
        return relay

    def _offer(self, terms: EdgeTerms, role: EdgeRole) -> tickets.Ticket:
        if terms.advertised in _UNSPECIFIED:
            raise AddressError(
                f"edges can listen on {terms.host!r}, but nobody can dial {terms.advertised!r}: "
                "name the address that neighbours reach with --advertise-host"
            )
        where = (terms.host, terms.port)
        with self._lock:
            self._check(terms)
            if where not in self._doorways:
                self._doorways[where] = Doorway(bind(*where), self._admit)
            secret = secrets.token_bytes(32)
            self._offers[secret] = Offer(terms)
            return tickets.Ticket(role, terms.advertised, self._doorways[where].address[1], secret)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            offers, self._offers = self._offers, {}
            doorways, self._doorways = self._doorways, {}
            relays = list(self._relays)
        self._dialler.close()
        for offer in offers.values():
            offer.withdraw()
        for relay in relays:
            relay.close()
        for doorway in doorways.values():
            doorway.close()

    def _check(self, terms: EdgeTerms) -> None:
        if self._closed:
            raise EdgeClosed(f"edge {terms.edge}: this side has closed its transport")

    def _await(self, terms: EdgeTerms, ticket: tickets.Ticket) -> socket.socket:
        with self._lock:
            self._check(terms)
            offer = self._offers.get(ticket.secret)
        if offer is None:
            raise HandshakeError(f"edge {terms.edge}: its ticket is not an open offer of this transport")
        try:
            return offer.wait(terms.open_timeout)
        finally:
            with self._lock:
                self._offers.pop(ticket.secret, None)

    def _admit(self, sock: socket.socket) -> bool:
        """Prove a dialer and give it to the offer whose secret it shows; anything else is turned away."""
        deadline = Deadline(_PROOF_S, "proving a dialer")
        with suppress(TransportError):
            prove = self._prover()
            if prove is None:
                return False
            talk = Talk(sock, deadline)
            prove(talk.read, talk.write, False)
            offer = self._take(talk.read(32))
            talk.write(REFUSED if offer is None else ADMITTED)
            return offer is not None and offer.give(sock)
        return False

    def _prover(self) -> Callable[..., None] | None:
        with self._lock:
            return next((offer.terms.prove for offer in self._offers.values()), None)

    def _take(self, secret: bytes) -> Offer | None:
        with self._lock:
            offer = self._offers.get(secret)
        return offer if offer is not None and offer.use() else None
