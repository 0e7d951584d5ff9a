"""The rules of what streams carry."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from typing import Literal

import anyio
import pytest
from anyio.abc import ByteStream
from hypothesis import given
from hypothesis import strategies as st

from truecluster.api import StreamTransport

from ._stream_ends import PIECE, StreamGiven, deliver, expect, noise, read
from .rules import ranging, require


class TransferRules(StreamGiven):
    """Bytes, sizes, order and room."""

    @ranging
    @given(sent=st.lists(st.binary(max_size=64), min_size=1, max_size=8))
    def test_bytes_arrive_as_they_were_sent(self, streams: StreamTransport, sent: list[bytes]) -> None:
        """The bytes of any sends, empty ones too, arrive one behind the other, and come back from an echo."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            for item in sent:
                await deliver(here, item, sent=sent)
            await expect(there, b"".join(sent), sent=sent)
            await deliver(there, b"".join(sent), sent=sent)
            await expect(here, b"".join(sent), sent=sent)

        self.run(streams, body)

    def test_sends_of_any_size_arrive_whole(self, streams: StreamTransport) -> None:
        """One send of any size arrives whole, up to 256 MiB."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            for size in sorted({min(size, self.largest) for size in (1 << 16, (1 << 16) + 1, 1 << 20, self.largest)}):
                data = noise(1 << 16) * (size >> 16) + bytes(size % (1 << 16))
                async with anyio.create_task_group() as group:
                    group.start_soon(here.send, data)
                    await expect(there, data, size=size)

        self.run(streams, body)

    def test_large_amounts_cross_both_ways_at_once(self, streams: StreamTransport) -> None:
        """Both ends send more than is buffered at once, and receive meanwhile."""

        async def flood(stream: ByteStream, data: bytes) -> None:
            for at in range(0, len(data), PIECE):
                await stream.send(data[at : at + PIECE])

        async def body(here: ByteStream, there: ByteStream) -> None:
            data = [noise(PIECE, seed) * (self.most_buffered // PIECE) for seed in (1, 2)]
            async with anyio.create_task_group() as group:
                for sender, receiver, item in ((here, there, data[0]), (there, here, data[1])):
                    group.start_soon(flood, sender, item)
                    group.start_soon(expect, receiver, item)

        self.run(streams, body)

    def test_a_thousand_small_sends_keep_their_order(self, streams: StreamTransport) -> None:
        """A thousand small sends arrive in their order, also where their receiver is late."""
        sent = [b"%d " % i for i in range(1000)]

        async def body(here: ByteStream, there: ByteStream) -> None:
            async def flood() -> None:
                for item in sent:
                    await here.send(item)

            async with anyio.create_task_group() as group:
                group.start_soon(flood)
                await anyio.sleep(self.moment_s)
                await expect(there, b"".join(sent))

        self.run(streams, body)

    def test_no_more_is_received_than_asked_for(self, streams: StreamTransport) -> None:
        """``receive`` gives at most as many bytes as it was asked for, and keeps the rest."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.send(noise(100))
            received = await there.receive(7)
            require(0 < len(received) <= 7, "1 to 7 bytes", f"{len(received)} bytes", asked_for=7)
            await expect(there, noise(100)[len(received) :])

        self.run(streams, body)

    @pytest.mark.parametrize("sender", ["dialled", "accepted"])
    def test_a_sender_waits_for_a_receiver_that_does_not_read(
        self, streams: StreamTransport, sender: Literal["dialled", "accepted"]
    ) -> None:
        """``send`` waits once 64 MiB lie with nobody who receives them: no memory is taken beyond that."""
        sent = 0

        async def flood(stream: ByteStream) -> None:
            nonlocal sent
            with suppress(anyio.BrokenResourceError):
                while sent <= self.most_buffered:
                    await stream.send(bytes(self.most_buffered // 64))
                    sent += self.most_buffered // 64

        async def body(here: ByteStream, there: ByteStream) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(flood, here if sender == "dialled" else there)
                before = -1
                while before < sent <= self.most_buffered:
                    before = sent
                    await anyio.sleep(3 * self.moment_s)
                expected = f"a wait before {self.most_buffered} bytes"
                require(sent <= self.most_buffered, expected, f"{sent} bytes were taken", sender=sender)
                await (there if sender == "dialled" else here).aclose()

        self.run(streams, body)

    def test_streams_do_not_mix(self, streams: StreamTransport) -> None:
        """Several streams of one listener carry each its own bytes."""

        async def main() -> None:
            async with self.accepting(streams) as (address, accepted), AsyncExitStack() as stack:
                pairs = []
                for _ in range(3):
                    here = await stack.enter_async_context(await streams.connect(*address))
                    pairs.append((here, await accepted()))
                for number, (here, _) in enumerate(pairs):
                    await here.send(bytes([number]) * 100)
                for half in range(2):
                    for number, (_, there) in enumerate(pairs):
                        came = await read(there, 50)
                        require(came == bytes([number]) * 50, f"50 bytes {number}", came, stream=number, half=half)

        self.within_patience(main)
