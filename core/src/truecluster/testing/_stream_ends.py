"""What the contract of streams opens and reads."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import AsyncResource, ByteStream

from truecluster.api import StreamTransport, TransportSpec

from ._transports import TransportGiven
from .rules import Broken, require

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

PIECE = 64 << 10
Body = Callable[[ByteStream, ByteStream], Awaitable[None]]


class StreamGiven(TransportGiven):
    """Opens streams, each test in an event loop of its own that ends within a limited time."""

    @pytest.fixture
    def streams(self, transport: Any, spec: TransportSpec) -> StreamTransport:
        """The transport, where it offers streams."""
        return self.offered(transport, StreamTransport, "streams", spec.streams)  # type: ignore[type-abstract]

    def run(self, streams: StreamTransport, body: Body) -> None:
        """``body(dialled end, accepted end)``."""

        async def main() -> None:
            async with self.pair(streams) as (here, there):
                await body(here, there)

        self.within_patience(main)

    def within_patience(self, main: Callable[[], Awaitable[None]], start_s: float = 0.0) -> None:
        """Run ``main`` in a loop and raise the first of what it raises; it has ``start_s`` seconds more."""
        limit_s = self.patience_s + start_s

        async def timed() -> None:
            with anyio.move_on_after(limit_s) as scope:
                await main()
            require(not scope.cancelled_caught, "every call ends", f"one still waits after {limit_s:g} s")

        try:
            self.background("every call, and every cancelled one,", lambda: anyio.run(timed), start_s).result()
        except BaseExceptionGroup as group:
            raise _first(group) from group

    @asynccontextmanager
    async def pair(self, streams: StreamTransport) -> AsyncIterator[tuple[ByteStream, ByteStream]]:
        """A dialled stream and the accepted one."""
        async with (
            self.accepting(streams) as (address, accepted),
            await streams.connect(*address) as here,
            await accepted() as there,
        ):
            yield here, there

    @asynccontextmanager
    async def accepting(
        self, streams: StreamTransport
    ) -> AsyncIterator[tuple[tuple[str, int], Callable[[], Awaitable[ByteStream]]]]:
        """The address of a listener that is served, and what waits for the next stream that it accepts."""
        came: list[ByteStream] = []
        sender, receiver = anyio.create_memory_object_stream[ByteStream](100)

        async def accept(stream: ByteStream) -> None:
            came.append(stream)
            await sender.send(stream)

        try:
            async with await streams.listen(self.host, 0) as listener, anyio.create_task_group() as group:
                group.start_soon(listener.serve, accept)
                yield streams.address(listener), receiver.receive
                group.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(self.patience_s, shield=True):
                for stream in (*came, sender, receiver):
                    await stream.aclose()


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _first_other(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that no part of a transport could make up."""
    return random.Random(seed).randbytes(size)


async def open_and_close(call: Callable[[str, int], Awaitable[AsyncResource]], host: str, port: int) -> None:
    """What is opened must be closed, also where that is cancelled."""
    await (await call(host, port)).aclose()


async def deliver(stream: ByteStream, data: bytes, **inputs: object) -> None:
    """Send ``data``, which a stream that is open must take."""
    try:
        await stream.send(data)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        raise Broken(f"a stream that takes {len(data)} bytes", error, inputs) from error


async def read(stream: ByteStream, size: int) -> bytes:
    """At least ``size`` bytes, in pieces of at most `PIECE`."""
    data = bytearray()
    while len(data) < size:
        data += await stream.receive(min(PIECE, size - len(data)))
    return bytes(data)


async def expect(stream: ByteStream, data: bytes, **inputs: object) -> None:
    """The next bytes must be ``data``."""
    expected = f"the {len(data)} bytes that were sent"
    try:
        came = await read(stream, len(data))
    except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
        raise Broken(expected, error, inputs) from error
    if came != data:
        raise Broken(expected, f"{len(came)} bytes, the first other one at {_first_other(data, came)}", inputs)
