"""Direct edges: the consumer listens, the producer dials, proves the key and shows its ticket's secret."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from truecluster.api import (
    AddressError,
    Edge,
    EdgeClosed,
    EdgeTerms,
    EdgeTimeout,
    EdgeTransport,
    HandshakeError,
    TransportError,
)

from . import tickets
from .deadline import Deadline, Talk
from .doorway import Doorway
from .edge import TcpEdge
from .offers import Offer
from .sockets import bind, unknown_host, unreachable

if TYPE_CHECKING:
    from truecluster.api import DeviceContext

_PROOF_S = 10.0
_ADMITTED, _REFUSED = b"\x01", b"\x00"
_UNSPECIFIED = ("0.0.0.0", "::", "")


class TcpEdges(EdgeTransport):
    """Edges over TCP. All offers of one object must be made with the same key: a dialer is proven before it says more.

    ``edge_port`` is the port to listen on, 0 for a free one; ``advertise_host`` goes into tickets instead of the
    address that is listened on.
    """

    def __init__(self, *, edge_port: int = 0, advertise_host: str | None = None) -> None:
        self._edge_port = edge_port
        self._advertise_host = advertise_host
        self._lock = threading.Lock()
        self._offers: dict[bytes, Offer] = {}
        self._doorways: dict[str, Doorway] = {}
        self._dialling: set[socket.socket] = set()
        self._closed = False

    def offer(self, terms: EdgeTerms) -> bytes:
        host = self._advertise_host or terms.host
        if host in _UNSPECIFIED:
            raise AddressError(f"edges can listen on {host!r}, but nobody can dial it: listen on one address")
        with self._lock:
            self._check(terms)
            if terms.host not in self._doorways:
                self._doorways[terms.host] = Doorway(bind(terms.host, self._edge_port), self._admit)
            port = self._doorways[terms.host].address[1]
            secret = secrets.token_bytes(32)
            self._offers[secret] = Offer(terms)
        return tickets.Ticket(host, port, secret).encode()

    def open(
        self, terms: EdgeTerms, ticket: bytes, role: Literal["producer", "consumer"], device: DeviceContext | None
    ) -> Edge:
        found = tickets.decode(ticket)
        sock = self._dial(terms, found) if role == "producer" else self._await(terms, found)
        return TcpEdge(sock, terms, device)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            offers, self._offers = self._offers, {}
            doorways, self._doorways = self._doorways, {}
            for sock in self._dialling:
                with suppress(OSError):  # not connected yet
                    sock.shutdown(socket.SHUT_RDWR)
        for offer in offers.values():
            offer.withdraw()
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
            raise HandshakeError(f"edge {terms.edge}: the consumer's ticket is not an open offer of this transport")
        try:
            sock = offer.wait(terms.timeout)
        finally:
            with self._lock:
                self._offers.pop(ticket.secret, None)
        with self._lock:
            if sock is None:
                self._check(terms)
                raise EdgeTimeout(f"edge {terms.edge}: no producer came within {terms.timeout:g} s")
        return sock

    def _dial(self, terms: EdgeTerms, ticket: tickets.Ticket) -> socket.socket:
        with self._lock:
            self._check(terms)
        deadline = Deadline(terms.timeout, f"edge {terms.edge}: opening it")
        sock = self._connect(terms, ticket, deadline)
        try:
            self._enter(terms, ticket, Talk(sock, deadline))
        except BaseException as error:
            sock.close()
            with self._lock:
                if isinstance(error, TransportError):
                    self._check(terms)
            raise
        finally:
            with self._lock:
                self._dialling.discard(sock)
        return sock

    def _enter(self, terms: EdgeTerms, ticket: tickets.Ticket, talk: Talk) -> None:
        terms.prove(talk.read, talk.write, True)
        talk.write(ticket.secret)
        if talk.read(1) != _ADMITTED:
            raise HandshakeError(
                f"edge {terms.edge}: its ticket was used before, or its consumer has stopped waiting; ask for a new one"
            )

    def _connect(self, terms: EdgeTerms, ticket: tickets.Ticket, deadline: Deadline) -> socket.socket:
        failure: OSError | None = None
        for family, kind, protocol, _, address in _addresses(ticket.host, ticket.port):
            sock = socket.socket(family, kind, protocol)
            with self._lock:
                self._dialling.add(sock)
            try:
                sock.settimeout(deadline.left())
                sock.connect(address)
            except (OSError, TransportError) as error:
                sock.close()
                with self._lock:
                    self._dialling.discard(sock)
                    self._check(terms)
                if isinstance(error, TransportError):
                    raise
                failure = error
            else:
                return sock
        raise AddressError(unreachable(ticket.host, ticket.port, failure or "no address")) from failure

    def _admit(self, sock: socket.socket) -> bool:
        """Prove a dialer and give it to the offer whose secret it shows; anything else is turned away."""
        deadline = Deadline(_PROOF_S, "proving a producer")
        with suppress(TransportError):
            prove = self._prover()
            if prove is None:
                return False
            talk = Talk(sock, deadline)
            prove(talk.read, talk.write, False)
            offer = self._take(talk.read(32))
            talk.write(_REFUSED if offer is None else _ADMITTED)
            return offer is not None and offer.give(sock)
        return False

    def _prover(self) -> Callable[..., None] | None:
        with self._lock:
            return next((offer.terms.prove for offer in self._offers.values()), None)

    def _take(self, secret: bytes) -> Offer | None:
        with self._lock:
            offer = self._offers.get(secret)
        return offer if offer is not None and offer.use() else None


def _addresses(host: str, port: int) -> list[Any]:
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        raise AddressError(unknown_host(host, port, error)) from error
