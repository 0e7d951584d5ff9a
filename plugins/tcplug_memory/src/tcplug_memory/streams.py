"""Async streams between tasks of one event loop, with addresses that only this object knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import anyio
from anyio.abc import ByteStream, Listener, TaskGroup

from truecluster.api import AddressError, StreamTransport

from .pipe import Bell, Pipe
from .ports import check_port

_BACKLOG = 128


class MemoryStreams(StreamTransport):
    """Listeners by host and port, which need not exist anywhere else."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], MemoryListener] = {}

    async def listen(self, host: str, port: int) -> MemoryListener:
        check_port(host, port)
        if not port:
            port = next(free for free in count(1) if (host, free) not in self._listeners)
        if (host, port) in self._listeners:
            raise AddressError(f"{host}:{port} is listened on already; choose another port (0 takes a free one)")
        listener = MemoryListener((host, port), self._listeners)
        self._listeners[host, port] = listener
        return listener

    async def connect(self, host: str, port: int) -> ByteStream:
        listener = self._listeners.get((host, port))
        if listener is None:
            raise AddressError(f"nothing in this process listens on {host}:{port}; check the address")
        there, back = Pipe(), Pipe()
        listener.deliver(MemoryStream(there, back))
        return MemoryStream(back, there)

    def address(self, listener: Listener[ByteStream]) -> tuple[str, int]:
        if not isinstance(listener, MemoryListener):
            raise TypeError(f"{type(listener).__name__} was not made by this transport's listen()")
        return listener.address


class MemoryStream(ByteStream):
    """One end of two pipes."""

    def __init__(self, inbound: Pipe, outbound: Pipe) -> None:
        self._inbound = inbound
        self._outbound = outbound

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._inbound.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self._outbound.send(item)

    async def send_eof(self) -> None:
        self._outbound.end()

    async def aclose(self) -> None:
        self._inbound.leave()
        self._outbound.close()


class MemoryListener(Listener[ByteStream]):
    """Takes connections from when it is made, as many as a backlog holds; `serve` handles them."""

    def __init__(self, address: tuple[str, int], listeners: dict[tuple[str, int], MemoryListener]) -> None:
        self.address = address
        self._listeners = listeners
        self._waiting: deque[MemoryStream] = deque()
        self._bell = Bell()
        self._closed = False

    def deliver(self, stream: MemoryStream) -> None:
        """Raises `AddressError` where nobody has taken what came before."""
        if len(self._waiting) == _BACKLOG:
            raise AddressError(f"{self.address[0]}:{self.address[1]} takes no more connections: it is not being served")
        self._waiting.append(stream)
        self._bell.ring()

    async def serve(self, handler: Callable[[ByteStream], Any], task_group: TaskGroup | None = None) -> None:
        if task_group is not None:
            await self._serve(handler, task_group)
        async with anyio.create_task_group() as group:
            await self._serve(handler, group)

    async def _serve(self, handler: Callable[[ByteStream], Any], group: TaskGroup) -> None:
        while not self._closed:
            while self._waiting:
                group.start_soon(handler, self._waiting.popleft())
            await self._bell.wait()
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        self._closed = True
        if self._listeners.get(self.address) is self:
            del self._listeners[self.address]
        while self._waiting:
            await self._waiting.popleft().aclose()
        self._bell.ring()
