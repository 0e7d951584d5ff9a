"""The contract of the streams of a transport."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from truecluster.api import AddressError, PluginError, StreamTransport, TransportSpec

from ._missing import missing

DEADLINE_S = 20.0
STALLED_S = 0.1
MAX_BUFFERED = 64 << 20
"""Bytes that a sender may get rid of while nobody receives."""


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that no part of a transport could make up."""
    return random.Random(seed).randbytes(size)


async def read(stream: ByteStream, size: int) -> bytes:
    """Exactly ``size`` bytes."""
    data = bytearray()
    while len(data) < size:
        data += await stream.receive(size - len(data))
    return bytes(data)


class TransportGiven:
    """What both halves of a transport's contract are given."""

    host = "127.0.0.1"

    @pytest.fixture
    def transport(self) -> Any:
        """The transport under test."""
        raise missing(self, "the fixture 'transport'", "a new transport object, closed after the test")

    @pytest.fixture
    def spec(self) -> TransportSpec:
        """What the plugin's hook says of it."""
        raise missing(self, "the fixture 'spec'", "the TransportSpec that the plugin's hook yields")


class StreamContract(TransportGiven):
    """Give the fixtures ``transport`` and ``spec``. What arrives is compared with what was sent, kept aside."""

    @pytest.fixture
    def streams(self, transport: Any, spec: TransportSpec) -> StreamTransport:
        """The transport, where it offers streams."""
        if not spec.streams:
            pytest.skip(f"{spec.name} offers no streams")
        assert isinstance(transport, StreamTransport)
        return transport

    def test_streams_that_are_not_offered_are_refused(self, transport: Any, spec: TransportSpec) -> None:
        """It isn't a `StreamTransport`, or says `PluginError`."""
        if not spec.streams and isinstance(transport, StreamTransport):
            with pytest.raises(PluginError):
                anyio.run(transport.listen, self.host, 0)
            with pytest.raises(PluginError):
                anyio.run(transport.connect, self.host, 1)

    def test_bytes_come_back_from_an_echo(self, streams: StreamTransport) -> None:
        async def body(here: ByteStream, there: ByteStream) -> None:
            for size in (1, 100, 4000):
                await here.send(noise(size))
                await there.send(await read(there, size))
                assert await read(here, size) == noise(size)

        self.run(streams, body)

    def test_large_amounts_cross_both_ways_at_once(self, streams: StreamTransport) -> None:
        size = 6 << 20

        async def check(stream: ByteStream, seed: int) -> None:
            assert await read(stream, size) == noise(size, seed)

        async def body(here: ByteStream, there: ByteStream) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(here.send, noise(size, 1))
                group.start_soon(there.send, noise(size, 2))
                group.start_soon(check, there, 1)
                group.start_soon(check, here, 2)

        self.run(streams, body)

    def test_no_more_is_received_than_asked_for(self, streams: StreamTransport) -> None:
        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.send(noise(100))
            received = await there.receive(7)
            assert 0 < len(received) <= 7
            assert received + await read(there, 100 - len(received)) == noise(100)

        self.run(streams, body)

    def test_a_sender_waits_for_a_receiver_that_does_not_read(self, streams: StreamTransport) -> None:
        sent = 0

        async def flood(stream: ByteStream) -> None:
            nonlocal sent
            while sent <= MAX_BUFFERED:
                await stream.send(bytes(1 << 20))
                sent += 1 << 20

        async def body(here: ByteStream, there: ByteStream) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(flood, here)
                before = -1
                while before < sent <= MAX_BUFFERED:
                    before = sent
                    await anyio.sleep(STALLED_S)
                assert sent <= MAX_BUFFERED, f"{sent} bytes were taken from a sender while nobody received"
                group.cancel_scope.cancel()

        self.run(streams, body)

    def test_the_end_of_a_stream_comes_after_what_was_sent(self, streams: StreamTransport) -> None:
        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.send(noise(1000))
            await here.send_eof()
            assert await read(there, 1000) == noise(1000)
            with pytest.raises(anyio.EndOfStream):
                await there.receive()
            await there.send(b"still open this way")
            assert await read(here, 19) == b"still open this way"

        self.run(streams, body)

    def test_closed_by_the_peer_and_by_this_side_are_told_apart(self, streams: StreamTransport) -> None:
        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.aclose()
            await here.aclose()
            with pytest.raises(anyio.EndOfStream):
                await there.receive()
            with pytest.raises(anyio.ClosedResourceError):
                await here.receive()
            with pytest.raises(anyio.ClosedResourceError):
                await here.send(b"x")
            with pytest.raises(anyio.BrokenResourceError):
                await self.send_until_it_fails(there)

        self.run(streams, body)

    def test_closing_wakes_this_sides_own_receive(self, streams: StreamTransport) -> None:
        async def body(here: ByteStream, there: ByteStream) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(self.close_soon, here)
                with pytest.raises(anyio.ClosedResourceError):
                    await here.receive()

        self.run(streams, body)

    def test_an_address_in_use_is_named_at_once(self, streams: StreamTransport) -> None:
        async def main() -> None:
            async with await streams.listen(self.host, 0) as listener:
                host, port = streams.address(listener)
                with pytest.raises(AddressError, match=str(port)):
                    await streams.listen(host, port)
                async with await streams.listen(self.host, 0) as other:
                    assert streams.address(other) != (host, port)
            await (await streams.listen(host, port)).aclose()

        self.within_deadline(main)

    def test_an_address_where_nobody_listens_is_named(self, streams: StreamTransport) -> None:
        async def main() -> None:
            listener = await streams.listen(self.host, 0)
            host, port = streams.address(listener)
            await listener.aclose()
            with pytest.raises(AddressError, match=str(port)):
                await streams.connect(host, port)

        self.within_deadline(main)

    @pytest.mark.parametrize("port", [-1, 65536, 70000])
    def test_a_port_that_does_not_exist_is_named(self, streams: StreamTransport, port: int) -> None:
        async def main() -> None:
            with pytest.raises(AddressError, match=str(port)):
                await streams.listen(self.host, port)
            with pytest.raises(AddressError, match=str(port)):
                await streams.connect(self.host, port)

        self.within_deadline(main)

    async def send_until_it_fails(self, stream: ByteStream) -> None:
        """The end of the peer may take a moment to be known."""
        while True:
            await stream.send(bytes(1000))
            await anyio.sleep(0.01)

    async def close_soon(self, stream: ByteStream) -> None:
        """Close while somebody waits."""
        await anyio.sleep(0.05)
        await stream.aclose()

    def run(self, streams: StreamTransport, body: Callable[[ByteStream, ByteStream], Awaitable[None]]) -> None:
        """``body(dialled end, accepted end)`` in a loop of its own."""

        async def main() -> None:
            async with self.pair(streams) as (here, there):
                await body(here, there)

        self.within_deadline(main)

    def within_deadline(self, main: Callable[[], Awaitable[None]]) -> None:
        """Nothing of a suite waits for ever."""

        async def timed() -> None:
            with anyio.fail_after(DEADLINE_S):
                await main()

        anyio.run(timed)

    @asynccontextmanager
    async def pair(self, streams: StreamTransport) -> AsyncIterator[tuple[ByteStream, ByteStream]]:
        """A dialled stream and the accepted one."""
        accepted: list[ByteStream] = []
        arrived = anyio.Event()

        async def accept(stream: ByteStream) -> None:
            accepted.append(stream)
            arrived.set()

        async with await streams.listen(self.host, 0) as listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, accept)
            async with await streams.connect(*streams.address(listener)) as here:
                await arrived.wait()
                async with accepted[0]:
                    yield here, accepted[0]
            group.cancel_scope.cancel()
