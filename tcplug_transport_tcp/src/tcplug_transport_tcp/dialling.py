"""The side of an edge that dials: connect, prove the key, show the ticket's secret."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

from truecluster.api import AddressError, EdgeClosed, EdgeTerms, HandshakeError, TransportError

from .deadline import Deadline, Talk
from .sockets import shown, unknown_host, unreachable
from .tickets import Ticket

ADMITTED, REFUSED = b"\x01", b"\x00"
_DIAL_S = 10.0
"""Whoever offers lets diallers in at once, so what takes longer is a firewall that drops what it gets."""


class Dialler:
    """Dials for several threads at once, until it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dialling: set[socket.socket] = set()
        self._closed = False

    def dial(self, terms: EdgeTerms, ticket: Ticket) -> socket.socket:
        """A connection that was let in. Raises what `EdgeTransport.open` does."""
        host = ticket.host or terms.peer_host
        if not host:
            raise AddressError(f"edge {terms.edge}: its ticket names no host, and no other is known")
        deadline = Deadline(min(_DIAL_S, terms.open_timeout), f"edge {terms.edge}: dialling {shown(host, ticket.port)}")
        sock = self._connect(terms, host, ticket.port, deadline)
        try:
            _enter(terms, ticket, Talk(sock, deadline))
        except BaseException as error:
            sock.close()
            if isinstance(error, TransportError):
                self._check(terms)
            raise
        finally:
            with self._lock:
                self._dialling.discard(sock)
        return sock

    def close(self) -> None:
        """Make every `dial` raise `EdgeClosed`."""
        with self._lock:
            self._closed = True
            for sock in self._dialling:
                with suppress(OSError):  # not connected yet
                    sock.shutdown(socket.SHUT_RDWR)

    def _check(self, terms: EdgeTerms) -> None:
        if self._closed:
            raise EdgeClosed(f"edge {terms.edge}: this side has closed its transport")

    def _connect(self, terms: EdgeTerms, host: str, port: int, deadline: Deadline) -> socket.socket:
        """On the first of the host's addresses that answers; each has its share of the time that is left."""
        failure: OSError | None = None
        addresses = _addresses(host, port)
        for rest, (family, kind, protocol, _, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                return self._connect_one(terms, socket.socket(family, kind, protocol), address, deadline.left() / rest)
            except OSError as error:
                failure = error
        deadline.left()
        raise AddressError(unreachable(host, port, failure or "no address")) from failure

    def _connect_one(self, terms: EdgeTerms, sock: socket.socket, address: Any, timeout: float) -> socket.socket:
        with self._lock:
            self._dialling.add(sock)
        try:
            self._check(terms)
            sock.settimeout(timeout)
            sock.connect(address)
        except BaseException:
            sock.close()
            with self._lock:
                self._dialling.discard(sock)
            self._check(terms)
            raise
        return sock


def _enter(terms: EdgeTerms, ticket: Ticket, talk: Talk) -> None:
    terms.prove(talk.read, talk.write, True)
    talk.write(ticket.secret)
    if talk.read(1) != ADMITTED:
        raise HandshakeError(
            f"edge {terms.edge}: its ticket was used before, or who gave it has stopped waiting; ask for a new one"
        )


def _addresses(host: str, port: int) -> list[Any]:
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        raise AddressError(unknown_host(host, port, error)) from error
