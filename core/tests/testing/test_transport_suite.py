"""The suite of transports catches transports that are wrong."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import deque

import anyio
import pytest
from anyio.abc import ByteStream, Listener

from truecluster.api import (
    AddressError,
    Edge,
    EdgeBroken,
    EdgeClosed,
    EdgeEnded,
    EdgeTimeout,
    EdgeTransport,
    HandshakeError,
    StreamTransport,
    TransportError,
    TransportSpec,
)
from truecluster.testing.transport import EdgeContract, StreamContract, TransportContract


class End(Edge):
    """One end of a queue of copies, bounded by their number."""

    capacity, ended = 8, EdgeEnded

    def __init__(self, transport, terms, channel, role):
        self.transport, self.terms, self.channel, self.role = transport, terms, channel, role
        self.other = {"producer": "consumer", "consumer": "producer"}[role]
        self.broken = False

    def copy(self, tensors):
        return [tensor.clone() for tensor in tensors]

    def check(self, gone):
        if self.broken:
            raise EdgeBroken("broken earlier")
        if self.role in self.channel["left"]:
            raise EdgeClosed("closed here")
        if gone and self.other in self.channel["left"]:
            raise self.ended("closed there")

    def send(self, header, tensors):
        changed, queue, left = self.channel["changed"], self.channel["queue"], self.channel["left"]
        with changed:
            if not changed.wait_for(lambda: len(queue) < self.capacity or left, self.terms.timeout):
                raise EdgeTimeout("nobody receives")
            self.check(gone=True)
            queue.append((header, self.copy(tensors)))
            changed.notify_all()

    def recv(self, place):
        changed, queue, left = self.channel["changed"], self.channel["queue"], self.channel["left"]
        with changed:
            changed.wait_for(lambda: queue or left)
            self.check(gone=not queue)
            header, tensors = queue.popleft()
            changed.notify_all()
        try:
            if len(header) > self.terms.max_header:
                raise EdgeBroken("header too long")
            self.fill(place(header), tensors)
        except EdgeBroken:
            self.abort()
            self.broken = True
            raise
        return header

    def fill(self, places, tensors):
        if sum(t.nbytes for t in places) != sum(t.nbytes for t in tensors):
            raise EdgeBroken("another size")
        for there, tensor in zip(places, tensors, strict=True):
            there.copy_(tensor)

    def abort(self):
        with self.channel["changed"]:
            self.channel["left"].add(self.role)
            self.channel["changed"].notify_all()

    close = abort


class Right(EdgeTransport):
    """Edges within a process, the short way."""

    end = End

    def __init__(self):
        self.changed, self.offers, self.closed, self.numbers = threading.Condition(), {}, False, itertools.count()

    def offer(self, terms, role="consumer"):
        if self.closed:
            raise EdgeClosed("closed")
        ticket = b"ticket %d" % next(self.numbers)
        self.offers[ticket] = {"terms": terms, "channel": None, "role": role}
        return ticket

    def withdraw(self, ticket):
        with self.changed:
            self.offers.pop(ticket, None)
            self.changed.notify_all()

    def open(self, terms, ticket, role, device):
        if self.closed:
            raise EdgeClosed("closed")
        if ticket not in self.offers:
            raise HandshakeError("no such ticket")
        offer = self.offers[ticket]
        channel = (self.wait if role == offer["role"] else self.enter)(terms, ticket, offer)
        return self.end(self, terms, channel, role)

    def enter(self, terms, ticket, offer):
        self.prove(terms, offer["terms"])
        with self.changed:
            if offer["channel"]:
                raise HandshakeError("used before")
            offer["channel"] = {"changed": threading.Condition(), "queue": deque(), "left": set()}
            self.changed.notify_all()
        return offer["channel"]

    def wait(self, terms, ticket, offer):
        with self.changed:
            gone = lambda: self.closed or ticket not in self.offers  # noqa: E731
            self.changed.wait_for(lambda: offer["channel"] or gone(), terms.open_timeout)
            if gone():
                raise EdgeClosed("closed")
        del self.offers[ticket]
        if not offer["channel"]:
            raise EdgeTimeout("nobody came")
        return offer["channel"]

    def prove(self, producer, consumer):
        here, there = socket.socketpair()
        with here, there:
            listener = threading.Thread(target=self.listen, args=(there, consumer))
            listener.start()
            try:
                producer.prove(lambda n: exactly(here, n), here.sendall, True)
            finally:
                here.shutdown(socket.SHUT_RDWR)
                listener.join()

    def listen(self, sock, terms):
        try:
            terms.prove(lambda n: exactly(sock, n), sock.sendall, False)
        except TransportError:
            sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()


def exactly(sock, size):
    data = sock.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise EdgeEnded("gone")
    return data


class Borrowing(Right):
    """Keeps what it was sent instead of a copy."""

    class end(End):
        def copy(self, tensors):
            return tensors


class Endless(Right):
    """Takes whatever is sent."""

    class end(End):
        capacity = 10**9


class Generous(Right):
    """Fills what fits."""

    class end(End):
        def fill(self, places, tensors):
            for there, tensor in zip(places, tensors, strict=True):
                n = min(there.numel(), tensor.numel())
                there.view(-1)[:n] = tensor.view(-1)[:n]


class Vague(Right):
    """Knows one way to end."""

    class end(End):
        ended = EdgeClosed


class Trusting(Right):
    """Lets anybody in."""

    def prove(self, producer, consumer):
        pass


class Reusing(Right):
    """A ticket is good for ever."""

    def enter(self, terms, ticket, offer):
        return offer["channel"] or super().enter(terms, ticket, offer)


class _Edges(EdgeContract):
    made = Right
    offered = True

    @pytest.fixture
    def transport(self):
        transport = self.made()
        yield transport
        transport.close()

    @pytest.fixture
    def spec(self):
        return TransportSpec(name="double", target="a:B", edges=self.offered)


class RightEdges(_Edges):
    pass


class BorrowingEdges(_Edges):
    made = Borrowing


class EndlessEdges(_Edges):
    made = Endless


class GenerousEdges(_Edges):
    made = Generous


class VagueEdges(_Edges):
    made = Vague


class TrustingEdges(_Edges):
    made = Trusting


class ReusingEdges(_Edges):
    made = Reusing


class UnofferedEdges(_Edges):
    offered = False


class Forgetful(EdgeContract):
    pass


def test_a_right_one_passes(failures) -> None:
    assert failures(RightEdges) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (BorrowingEdges, "test_what_was_sent_may_be_overwritten_at_once"),
        (EndlessEdges, "test_a_producer_waits_for_a_consumer_that_does_not_receive"),
        (GenerousEdges, "test_a_payload_of_another_size_breaks_it_for_both"),
        (VagueEdges, "test_the_end_comes_after_what_was_sent"),
        (TrustingEdges, "test_a_wrong_key_is_refused_and_uses_nothing_up"),
        (ReusingEdges, "test_a_ticket_lets_one_producer_in"),
        (UnofferedEdges, "test_edges_that_are_not_offered_are_refused"),
        (Forgetful, "test_edges_do_not_mix"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_edges_are_caught(failures, suite: type, caught: str) -> None:
    assert caught in failures(suite)


class Pipe:
    def __init__(self, capacity):
        self.data, self.changed, self.capacity = bytearray(), anyio.Event(), capacity
        self.sender_gone = self.receiver_gone = self.ended = False

    def ring(self):
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, ready):
        await anyio.sleep(0)
        while not ready():
            await self.changed.wait()


class Stream(ByteStream):
    """An end of two pipes."""

    def __init__(self, inbound, outbound):
        self.inbound, self.outbound = inbound, outbound

    async def receive(self, max_bytes=65536):
        pipe = self.inbound
        await pipe.until(lambda: pipe.data or pipe.ended or pipe.receiver_gone)
        if pipe.receiver_gone:
            raise anyio.ClosedResourceError
        if not pipe.data:
            raise anyio.EndOfStream
        data = bytes(pipe.data[:max_bytes])
        del pipe.data[:max_bytes]
        pipe.ring()
        return data

    async def send(self, item):
        pipe = self.outbound
        for start in range(0, len(item), 4096):
            await pipe.until(lambda: len(pipe.data) < pipe.capacity or pipe.sender_gone or pipe.receiver_gone)
            if pipe.sender_gone:
                raise anyio.ClosedResourceError
            if pipe.receiver_gone:
                raise anyio.BrokenResourceError
            pipe.data += item[start : start + 4096]
            pipe.ring()

    async def send_eof(self):
        self.outbound.ended = True
        self.outbound.ring()

    async def aclose(self):
        self.outbound.sender_gone = self.inbound.receiver_gone = True
        await self.send_eof()
        self.inbound.ring()


class Greedy(Stream):
    """Gives all it has."""

    async def receive(self, max_bytes=65536):
        return await super().receive(10**9)


class Desk(Listener):
    def __init__(self, address, desks):
        self.address, self.desks, self.bell = address, desks, anyio.create_memory_object_stream(10)

    async def serve(self, handler, task_group=None):
        async with anyio.create_task_group() as group:
            while True:
                group.start_soon(handler, await self.bell[1].receive())

    async def aclose(self):
        self.desks.pop(self.address, None)
        for side in self.bell:
            side.close()


class Streams(StreamTransport):
    stream, capacity = Stream, 1 << 16

    def __init__(self):
        self.desks = {}

    async def listen(self, host, port):
        if not 0 <= port < 65536:
            raise AddressError(f"no port {port}")
        port = port or 1 + len(self.desks)
        if (host, port) in self.desks:
            raise AddressError(f"port {port} in use")
        self.desks[host, port] = Desk((host, port), self.desks)
        return self.desks[host, port]

    async def connect(self, host, port):
        if (host, port) not in self.desks:
            raise AddressError(f"nobody at {port}")
        pipes = Pipe(self.capacity), Pipe(self.capacity)
        await self.desks[host, port].bell[0].send(self.stream(*pipes))
        return self.stream(*reversed(pipes))

    def address(self, listener):
        return listener.address


class _Streams(StreamContract):
    made = Streams
    offered = True

    @pytest.fixture
    def transport(self):
        return self.made()

    @pytest.fixture
    def spec(self):
        return TransportSpec(name="double", target="a:B", streams=self.offered)


class RightStreams(_Streams):
    pass


class EndlessStreams(_Streams):
    class made(Streams):
        capacity = 10**12


class GreedyStreams(_Streams):
    class made(Streams):
        stream = Greedy


class SharingStreams(_Streams):
    class made(Streams):
        async def listen(self, host, port):
            self.desks.pop((host, port), None)
            return await super().listen(host, port)


class UnofferedStreams(_Streams):
    offered = False


def test_right_streams_pass(failures) -> None:
    assert failures(RightStreams) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (EndlessStreams, "test_a_sender_waits_for_a_receiver_that_does_not_read"),
        (GreedyStreams, "test_no_more_is_received_than_asked_for"),
        (SharingStreams, "test_an_address_in_use_is_named_at_once"),
        (UnofferedStreams, "test_streams_that_are_not_offered_are_refused"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_streams_are_caught(failures, suite: type, caught: str) -> None:
    assert caught in failures(suite)


def test_a_transport_of_both_is_held_to_both() -> None:
    assert issubclass(TransportContract, StreamContract)
    assert issubclass(TransportContract, EdgeContract)
