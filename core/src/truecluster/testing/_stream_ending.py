"""The rules of how streams end."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
import pytest
from anyio.abc import ByteStream

from truecluster.api import StreamTransport, TransportSpec

from ._stream_ends import StreamGiven, expect, noise
from .rules import refusal


class EndRules(StreamGiven):
    """Half closed, closed by the peer, closed by this side, broken."""

    def test_the_end_of_a_stream_comes_after_what_was_sent(self, streams: StreamTransport) -> None:
        """After ``send_eof`` the peer receives all that was sent, then `EndOfStream`."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.send(noise(1000))
            await here.send_eof()
            await expect(there, noise(1000))
            with refusal(anyio.EndOfStream):
                await there.receive()

        self.run(streams, body)

    def test_a_half_closed_stream_is_open_the_other_way(self, streams: StreamTransport) -> None:
        """After ``send_eof`` this side still receives what its peer sends."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.send_eof()
            await there.send(b"still open this way")
            await expect(here, b"still open this way")

        self.run(streams, body)

    def test_closing_comes_after_what_was_sent(self, streams: StreamTransport) -> None:
        """After ``aclose`` the peer receives all that was sent, then `EndOfStream`."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.send(noise(1000))
            await here.aclose()
            await expect(there, noise(1000))
            with refusal(anyio.EndOfStream):
                await there.receive()

        self.run(streams, body)

    def test_a_stream_that_this_side_closed_is_told_apart(self, streams: StreamTransport) -> None:
        """After its own ``aclose``, which may be repeated, an end raises `ClosedResourceError`."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.aclose()
            await here.aclose()
            with refusal(anyio.ClosedResourceError, of="receive"):
                await here.receive()
            with refusal(anyio.ClosedResourceError, of="send"):
                await here.send(b"x")

        self.run(streams, body)

    def test_a_sender_learns_that_its_peer_has_closed(self, streams: StreamTransport) -> None:
        """``send`` raises `BrokenResourceError` soon after the peer has closed."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            await here.aclose()
            with refusal(anyio.BrokenResourceError):
                for _ in range(int(self.patience_s / 0.02)):
                    await there.send(bytes(1000))
                    await anyio.sleep(0.01)

        self.run(streams, body)

    @pytest.mark.parametrize("call", ["receive", "send"])
    def test_closing_wakes_who_waits(self, streams: StreamTransport, call: Literal["receive", "send"]) -> None:
        """``aclose`` ends a ``receive`` or ``send`` of this side that waits with `ClosedResourceError`."""

        async def close_soon(stream: ByteStream) -> None:
            await anyio.sleep(self.moment_s)
            await stream.aclose()

        async def body(here: ByteStream, there: ByteStream) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(close_soon, here)
                with refusal(anyio.ClosedResourceError, call=call):
                    while call == "send":
                        await here.send(bytes(1 << 16))
                    await here.receive()

        self.run(streams, body)

    def test_a_peer_that_is_killed_ends_it(self, streams: StreamTransport, spec: TransportSpec) -> None:
        """Where the peer's process dies, ``receive`` raises `EndOfStream` or `BrokenResourceError`."""

        async def main() -> None:
            async with self.accepting(streams) as ((host, port), accepted):
                with self.far(spec, role="connect", host=host, port=port) as process:
                    async with await self.dialled(process, accepted) as stream:
                        await expect(stream, b"x")
                        await stream.send(b"unread")
                        process.kill()
                        with refusal((anyio.EndOfStream, anyio.BrokenResourceError)):
                            await stream.receive()

        self.within_patience(main, self.start_s)

    async def dialled(
        self, process: subprocess.Popen[str], accepted: Callable[[], Awaitable[ByteStream]]
    ) -> ByteStream:
        """The stream that ``process`` dials."""
        while True:
            with anyio.move_on_after(self.moment_s):
                return await accepted()
            self.alive(process)
