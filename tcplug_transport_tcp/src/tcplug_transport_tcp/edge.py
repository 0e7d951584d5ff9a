"""One end of an edge over a blocking socket.

A message is ``[header length u32][payload length u64]``, big-endian, the header, and the tensors' bytes one behind
the other. The socket stays in blocking mode for the wait between two messages; within one, calls don't block and a
poll has the rest of the deadline.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from truecluster.api import Edge, EdgeBroken, EdgeClosed, EdgeEnded, EdgeTerms, Place, TransportError

from .deadline import Deadline
from .memory import deliver, landing, on_host, view
from .sockets import tune, widen

if TYPE_CHECKING:
    import torch

    from truecluster.api import DeviceContext

_PREFIX = struct.Struct(">IQ")
_AHEAD_BYTES = 64 << 10
"""What one call reads where more is there; a decode step whole."""
_GRACE_S = 30.0
"""The system gives a peer up later than this edge's own deadline does, which says more."""


class TcpEdge(Edge):
    """``sock`` is connected and proven; it is this object's from now on."""

    def __init__(self, sock: socket.socket, terms: EdgeTerms, device: DeviceContext | None) -> None:
        tune(sock, terms.timeout + _GRACE_S)
        widen(sock)
        sock.settimeout(None)
        self._sock = sock
        self._terms = terms
        self._device = device
        self._room = memoryview(bytearray(_AHEAD_BYTES))
        self._at = self._got = 0  # what of it is still to be taken
        self._lock = threading.Lock()
        self._deadline: Deadline | None = None  # of the message at hand, from the moment that it has to wait
        self._consumer = select.poll()  # which never sends anything: all there can be is its end
        self._consumer.register(sock, select.POLLIN)
        self._closed = False
        self._end: TransportError | None = None

    def send(self, header: bytes, tensors: Sequence[torch.Tensor]) -> None:
        self._alone(self._send, header, tensors)

    def recv(self, place: Place) -> bytes:
        header: bytes = self._alone(self._recv, place)
        return header

    def _alone(self, call: Callable[..., Any], *arguments: object) -> Any:
        """One call at a time; whatever interrupts one is the end of the edge."""
        with self._lock:
            if self._closed or self._end is not None:
                raise self._why_ended()
            self._deadline = None
            try:
                return call(*arguments)
            except (OSError, TransportError) as error:
                raise self._end_for(error) from error
            except BaseException as error:
                self._end_for(error)
                raise

    def _send(self, header: bytes, tensors: Sequence[torch.Tensor]) -> None:
        held: list[torch.Tensor] = []
        parts: list[bytes | memoryview] = [b""]
        payload = 0
        for tensor in tensors:
            held.append(there := on_host(tensor, self._device))
            parts.append(view(there))
            payload += there.nbytes
        parts[0] = head = _PREFIX.pack(len(header), payload) + header
        self._send_all(parts, len(head) + payload)
        if self._peer_left():  # asked when the message is on its way, which it may not find anybody at the end of
            raise EdgeEnded(f"edge {self._terms.edge}: the consumer closed it")

    def _recv(self, place: Place) -> bytes:
        if self._at == self._got:
            self._at, self._got = 0, self._sock.recv_into(self._room)
            if not self._got:
                raise EdgeEnded(f"edge {self._terms.edge}: the producer closed it")
        size, payload = _PREFIX.unpack(self._read(_PREFIX.size))
        if size > self._terms.max_header:
            raise self._rule(f"a header of {size} bytes, at most {self._terms.max_header} are allowed")
        header = self._read(size)
        self._receive_payload(place(header), payload)
        return header

    def abort(self) -> None:
        self._closed = True
        with suppress(OSError):  # not connected any more
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.abort()  # what was sent still arrives: the end is queued behind it
        with self._lock:
            self._sock.close()

    def _receive_payload(self, places: Sequence[torch.Tensor], payload: int) -> None:
        landed, room = [], 0
        for tensor in places:
            there = landing(tensor)
            landed.append((there, view(there), tensor))
            room += there.nbytes
        if payload != room:
            raise self._rule(f"a payload of {payload} bytes where {room} are due")
        for there, memory, tensor in landed:
            self._fill(memory)
            deliver(there, tensor, self._device)

    def _send_all(self, parts: list[bytes | memoryview], size: int) -> None:
        while True:
            try:
                sent = self._sock.sendmsg(parts, (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait(select.POLLOUT | select.POLLIN)
                if self._peer_left():
                    raise self._rule("the consumer closed it inside a message") from None
                continue
            if sent == size:
                return
            parts, size = _after(parts, sent), size - sent

    def _read(self, size: int) -> bytes:
        start, end = self._at, self._at + size
        if end <= self._got:
            self._at = end
            return bytes(self._room[start:end])
        data = bytearray(size)
        self._fill(memoryview(data))
        return bytes(data)

    def _fill(self, memory: memoryview) -> None:
        start, end = self._at, min(self._at + len(memory), self._got)
        if start < end:
            self._at = end
            memory[: end - start] = self._room[start:end]
            memory = memory[end - start :]
        while memory:
            try:
                got = self._sock.recv_into(memory, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            if not got:
                raise self._rule("the producer left inside a message")
            memory = memory[got:]

    def _wait(self, events: int) -> None:
        if self._deadline is None:
            self._deadline = Deadline(self._terms.timeout, f"edge {self._terms.edge}: a message that had begun")
        poll = select.poll()
        poll.register(self._sock, events)
        poll.poll(self._deadline.left() * 1000)

    def _peer_left(self) -> bool:
        """Whether the consumer has closed its end, or left."""
        return bool(self._consumer.poll(0))

    def _rule(self, what: str) -> EdgeBroken:
        return EdgeBroken(f"edge {self._terms.edge}: {what}")

    def _why_ended(self) -> TransportError:
        return self._closed_here() if self._closed or self._end is None else self._end

    def _end_for(self, error: BaseException) -> TransportError:
        """End the edge for ``error``, and wake the peer; returns what this and later calls raise."""
        self._end = self._explain(error)
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        return self._end

    def _explain(self, error: BaseException) -> TransportError:
        if self._closed:
            return self._closed_here()
        if isinstance(error, TransportError):
            return error
        return self._rule(f"the connection was lost: {error}" if isinstance(error, OSError) else "it failed earlier")

    def _closed_here(self) -> EdgeClosed:
        return EdgeClosed(f"edge {self._terms.edge}: this side closed it")


def _after(parts: list[bytes | memoryview], sent: int) -> list[bytes | memoryview]:
    """What is left of ``parts`` when ``sent`` bytes of them are gone, but not all."""
    at = 0
    while sent >= len(parts[at]):
        sent -= len(parts[at])
        at += 1
    return [parts[at][sent:], *parts[at + 1 :]]
