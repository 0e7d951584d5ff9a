"""One direction of a stream between tasks of one event loop."""

from __future__ import annotations

import anyio
import anyio.lowlevel

_CAPACITY = 256 << 10


class Bell:
    """Wakes all who wait for it."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def ring(self) -> None:
        self._event.set()
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class Pipe:
    """A buffer of 256 KiB: a sender waits while it is full. Errors and endings are those of anyio's streams."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._changed = Bell()
        self._ended = self._sender_closed = self._receiver_left = False

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while True:
            if self._sender_closed:
                raise anyio.ClosedResourceError
            if self._receiver_left or self._ended:
                raise anyio.BrokenResourceError
            room = _CAPACITY - len(self._data)
            if room:
                self._data += rest[:room]
                rest = rest[room:]
                self._changed.ring()
            if not rest:
                return
            await self._changed.wait()

    async def receive(self, max_bytes: int) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._data:
            if self._receiver_left:
                raise anyio.ClosedResourceError
            if self._ended:
                raise anyio.EndOfStream
            await self._changed.wait()
        data = bytes(memoryview(self._data)[:max_bytes])
        del self._data[:max_bytes]
        self._changed.ring()
        return data

    def end(self) -> None:
        """Nothing more will be sent."""
        self._ended = True
        self._changed.ring()

    def close(self) -> None:
        """The sender is gone."""
        self._sender_closed = True
        self.end()

    def leave(self) -> None:
        """The receiver is gone; what it has not read is lost."""
        self._receiver_left = True
        self._data.clear()
        self._changed.ring()
