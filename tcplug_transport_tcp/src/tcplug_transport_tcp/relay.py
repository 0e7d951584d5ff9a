"""A relayed edge: two connections and a thread that passes bytes from one to the other."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from truecluster.api import EdgeClosed, EdgeTerms, Relay

from .sockets import tune, widen

if TYPE_CHECKING:
    from .tickets import Ticket

_BUFFER_BYTES = 256 << 10
_DEAD_AFTER_S = 90.0


class TcpRelay(Relay):
    """``wait`` gives the connection that comes with an offered ticket, once; ``withdraw`` makes it give up."""

    def __init__(
        self,
        terms: EdgeTerms,
        producer: Ticket,
        consumer: Ticket,
        wait: Callable[[EdgeTerms, Ticket], socket.socket],
        withdraw: Callable[[bytes], None],
    ) -> None:
        self.producer_ticket = producer.encode()
        self.consumer_ticket = consumer.encode()
        self._terms = terms
        self._tickets = (producer, consumer)
        self._wait = wait
        self._withdraw = withdraw
        self._lock = threading.Lock()
        self._socks: list[socket.socket] = []
        self._closed = False

    def run(self) -> None:
        try:
            producer, consumer = [self._take(ticket) for ticket in self._tickets]
            _pass_on(producer, consumer)
        finally:
            self.close()
            with self._lock:
                for sock in self._socks:
                    sock.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for sock in self._socks:
                with suppress(OSError):  # not connected any more
                    sock.shutdown(socket.SHUT_RDWR)
        self._withdraw(self.producer_ticket)
        self._withdraw(self.consumer_ticket)

    def _take(self, ticket: Ticket) -> socket.socket:
        sock = self._wait(self._terms, ticket)
        tune(sock, _DEAD_AFTER_S)
        widen(sock)
        sock.setblocking(False)
        with self._lock:
            self._socks.append(sock)
            if self._closed:
                raise EdgeClosed(f"edge {self._terms.edge}: its relay was closed")
        return sock


def _pass_on(producer: socket.socket, consumer: socket.socket) -> None:
    """Until either has ended. A connection that fails ends like one that is closed: both ends then say what it was."""
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    poll = select.poll()
    poll.register(producer, select.POLLIN)
    poll.register(consumer, select.POLLIN)
    with suppress(OSError):
        while True:
            ready = {number for number, _ in poll.poll()}
            if consumer.fileno() in ready:
                return  # it sends nothing, so it can only have left
            got = producer.recv_into(buffer)
            if not got or not _send(consumer, buffer[:got]):
                return


def _send(consumer: socket.socket, data: memoryview) -> bool:
    """False where the consumer left first. Waits for as long as the consumer does not read: its edge has a deadline."""
    poll = select.poll()
    poll.register(consumer, select.POLLIN | select.POLLOUT)
    while data:
        try:
            data = data[consumer.send(data) :]
        except BlockingIOError:
            if any(event & ~select.POLLOUT for _, event in poll.poll()):
                return False
    return True
