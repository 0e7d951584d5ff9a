"""The suite of streams catches streams that are wrong."""

from __future__ import annotations

import socket
import struct
from collections import defaultdict
from types import MappingProxyType

import anyio
import anyio.lowlevel
import pytest
from doubles import Double
from stream_doubles import Desk, Stream, Streams

from truecluster.api import AddressError, TransportSpec
from truecluster.testing.transport import EdgeContract, StreamContract, TransportContract

SUITE = StreamContract
SHORT_S = 1.0
"""Patience with doubles that let somebody wait for ever, or leave something behind for good."""


class OverDouble(StreamContract):
    """Right where a subclass doesn't say otherwise; what reaches only this process needs no second one."""

    made = Streams
    offers = MappingProxyType({"streams": True, "local": True})
    largest, most_buffered, patience_s, moment_s = 1 << 18, 16 << 20, 10.0, 0.02

    @pytest.fixture
    def transport(self):
        transport = self.made()
        yield transport
        transport.release()

    @pytest.fixture
    def spec(self):
        return TransportSpec(name="double", target=f"{Streams.__module__}:{Streams.__name__}", **self.offers)


def over(made, patience_s=OverDouble.patience_s, **offers):
    """A suite over a double, to be found in this module under the double's name."""
    name = f"Over{made.__name__}"
    given = {"made": made, "patience_s": patience_s, "offers": {**OverDouble.offers, **offers}}
    suite = type(name, (OverDouble,), {**given, "__module__": __name__})
    globals()[name] = suite
    return suite


def of(stream, *patience_s, **offers):
    """A suite over streams that are wrong."""
    return over(type(f"{stream.__name__}Streams", (Streams,), {"stream": stream}), *patience_s, **offers)


class Unoffered(Streams):
    """Is there though its spec says nothing of it."""


class Sharing(Streams):
    """Listens where somebody listens already."""

    def prepare(self, sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


class Remembering(Streams):
    """Never gives an address back."""

    def __init__(self):
        super().__init__()
        self.taken = set()

    async def listen(self, host, port):
        if port in self.taken:
            raise AddressError(f"port {port} was listened on before")
        desk = await super().listen(host, port)
        self.taken.add(desk.address[1])
        return desk


class Raw(Streams):
    """Lets the system's error through where nobody listens."""

    def refused(self, port, code):
        raise ConnectionRefusedError(code, "nobody there")


class AnyPort(Streams):
    """Leaves it to the system whether a port exists."""

    def check_port(self, port):
        pass


class EndingOnNothing(Stream):
    """Takes an empty send for the end."""

    async def send(self, item):
        await (super().send(item) if item else self.send_eof())


class Truncating(Stream):
    """Sends the first 64 KiB."""

    async def send(self, item):
        await super().send(bytes(item[: 1 << 16]) + bytes(max(0, len(item) - (1 << 16))))


class HalfDuplex(Stream):
    """Receives nothing while it sends."""

    sending = 0

    async def send(self, item):
        self.sending += 1
        try:
            await super().send(item)
        finally:
            self.sending -= 1

    async def receive(self, max_bytes=65536):
        while self.sending:
            await anyio.sleep(0.001)
        return await super().receive(max_bytes)


class Forgetful(Stream):
    """Sends every 400th item after the next one."""

    count, late = 0, b""

    async def send(self, item):
        self.count += 1
        if self.count % 400 == 0:
            self.late = item
        else:
            late, self.late = self.late, b""
            await super().send(item + late if late else item)


class Greedy(Stream):
    """Gives all it has to who asks for little."""

    async def receive(self, max_bytes=65536):
        return await super().receive(max_bytes if max_bytes > 8 else 65536)


class ReadingAhead(Stream):
    """Reads whatever comes, once it is accepted."""

    ahead = None

    async def read_ahead(self):
        self.ahead, self.changed = bytearray(), anyio.Event()
        try:
            while data := await super().take(65536):
                self.ahead += data
                self.ring()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            self.error = error
        else:
            self.error = anyio.EndOfStream()
        self.ring()

    error = None

    def ring(self):
        self.changed.set()
        self.changed = anyio.Event()

    async def take(self, max_bytes):
        if self.ahead is None:
            return await super().take(max_bytes)
        while not self.ahead and self.error is None:
            await self.changed.wait()
        if not self.ahead:
            raise self.error
        data = bytes(self.ahead[:max_bytes])
        del self.ahead[:max_bytes]
        return data


class Ahead(Streams):
    stream = ReadingAhead

    class desk(Desk):
        def start(self, group, handler, stream):
            group.start_soon(stream.read_ahead)
            super().start(group, handler, stream)


class Mixing(Stream):
    """Keeps what was not asked for where other streams of its port find it."""

    async def take(self, max_bytes):
        left = self.transport.left[self.sock.getsockname()[1]]
        left += b"" if left else await super().take(65536)
        data = bytes(left[:max_bytes])
        del left[:max_bytes]
        return data


class Mixed(Streams):
    stream = Mixing

    def __init__(self):
        super().__init__()
        self.left = defaultdict(bytearray)


class Discarding(Stream):
    """Its end overtakes what was sent."""

    async def send_eof(self):
        self.transport.ended.add(self.sock.getsockname())
        await super().send_eof()

    async def take(self, max_bytes):
        return b"" if self.sock.getpeername() in self.transport.ended else await super().take(max_bytes)


class Overtaken(Streams):
    stream = Discarding

    def __init__(self):
        super().__init__()
        self.ended = set()


class Hanging(Stream):
    """Ends both ways at once."""

    async def send_eof(self):
        self.shut(socket.SHUT_RDWR)


class Rude(Stream):
    """Resets its connection instead of closing it."""

    async def aclose(self):
        if not self.closed:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await super().aclose()


class Vague(Stream):
    """Calls its own end a broken stream."""

    def check(self):
        if self.closed:
            raise anyio.BrokenResourceError


class Oblivious(Stream):
    """Sends to nobody."""

    async def send(self, item):
        try:
            await super().send(item)
        except anyio.BrokenResourceError:
            await anyio.lowlevel.checkpoint()


class Deaf(Stream):
    """Goes on waiting for bytes after its end."""

    async def until(self, ready):
        if ready is not anyio.wait_readable:
            return await super().until(ready)
        try:
            await ready(self.sock)
        finally:
            if self.closed:
                self.sock.close()
        self.check()

    async def receive(self, max_bytes=65536):
        self.receiving = True
        try:
            return await super().receive(max_bytes)
        finally:
            self.receiving = False

    receiving = False

    async def aclose(self):
        self.closed = True
        if not self.receiving:
            await super().aclose()


class Untranslated(Stream):
    """Lets the system's error through where the peer is gone."""

    def lost(self, error):
        raise error


class Shielded(Stream):
    """Sends on when it is cancelled."""

    async def send(self, item):
        with anyio.CancelScope(shield=True), anyio.move_on_after(3 * SHORT_S):
            await super().send(item)


class Losing(Stream):
    """Can be cancelled when it has taken its bytes."""

    async def receive(self, max_bytes=65536):
        data = await super().receive(max_bytes)
        await anyio.lowlevel.checkpoint()
        return data


class Keeping(Streams):
    """Keeps the socket of a dial that was cancelled."""

    def drop(self, sock):
        self.kept.append(sock)


RIGHT = [over(Streams, local=False)]
DOUBLES = {
    "test_streams_that_are_not_offered_are_refused": Double(over(Unoffered, streams=False), "expected: PluginError"),
    "test_an_address_in_use_is_named_at_once": Double(over(Sharing), "nothing was raised"),
    "test_a_closed_listener_frees_its_address": Double(over(Remembering), "was listened on before"),
    "test_an_address_where_nobody_listens_is_named": Double(over(Raw), "came: ConnectionRefusedError"),
    "test_a_port_that_does_not_exist_is_named": Double(over(AnyPort), r"came: OverflowError[\s\S]*port: -1"),
    "test_bytes_arrive_as_they_were_sent": Double(
        of(EndingOnNothing), r"came: BrokenResourceError\(\)\nsent: \[b'', b'\\x00'\]"
    ),
    "test_sends_of_any_size_arrive_whole": Double(of(Truncating), "the first other one at 65536"),
    "test_large_amounts_cross_both_ways_at_once": Double(of(HalfDuplex, SHORT_S), "one still waits"),
    "test_a_thousand_small_sends_keep_their_order": Double(of(Forgetful), "the first other one at"),
    "test_no_more_is_received_than_asked_for": Double(of(Greedy), "came: 100 bytes\nasked_for: 7"),
    "test_a_sender_waits_for_a_receiver_that_does_not_read": Double(over(Ahead), r"were taken\nsender: dialled"),
    "test_streams_do_not_mix": Double(over(Mixed), "stream: 1"),
    "test_the_end_of_a_stream_comes_after_what_was_sent": Double(over(Overtaken), "came: EndOfStream"),
    "test_a_half_closed_stream_is_open_the_other_way": Double(of(Hanging), "came: BrokenResourceError"),
    "test_closing_comes_after_what_was_sent": Double(of(Rude), "came: BrokenResourceError"),
    "test_a_stream_that_this_side_closed_is_told_apart": Double(of(Vague), "came: BrokenResourceError"),
    "test_a_sender_learns_that_its_peer_has_closed": Double(of(Oblivious, SHORT_S), "nothing was raised"),
    "test_closing_wakes_who_waits": Double(of(Deaf, SHORT_S), "one still waits"),
    "test_a_peer_that_is_killed_ends_it": Double(of(Untranslated, local=False), "came: ConnectionResetError"),
    "test_a_wait_that_is_cancelled_ends": Double(of(Shielded, SHORT_S), "every cancelled one, ends"),
    "test_a_cancelled_receive_loses_nothing": Double(of(Losing), "the first other one at|the first of the bytes"),
    "test_a_cancelled_opening_leaves_nothing_open": Double(
        over(Keeping, SHORT_S), r"\d+ descriptors[\s\S]*call: connect"
    ),
}


def test_a_transport_of_both_is_held_to_both() -> None:
    assert issubclass(TransportContract, StreamContract)
    assert issubclass(TransportContract, EdgeContract)
