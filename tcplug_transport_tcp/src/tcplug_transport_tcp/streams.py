"""Async streams over non-blocking sockets.

Not anyio's own socket streams: an accepted one reads ahead without limit until somebody receives from it, which is
memory given to whoever can dial.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, Listener, SocketAttribute, TaskGroup

from truecluster.api import AddressError, StreamTransport

from .sockets import Address, bind, check_port, local_address, tune, unknown_host, unreachable

_CONNECT_TIMEOUT_S = 10.0
_DEAD_AFTER_S = 60.0
_RETRY_S = 0.1


class TcpStreams(StreamTransport):
    """Streams over TCP, IPv4 or IPv6."""

    async def listen(self, host: str, port: int) -> TcpListener:
        return TcpListener(await anyio.to_thread.run_sync(bind, host, port))

    async def connect(self, host: str, port: int) -> ByteStream:
        check_port(host, port)
        try:
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise AddressError(unknown_host(host, port, error)) from error
        failure: OSError = TimeoutError(f"no answer within {_CONNECT_TIMEOUT_S:g} s")
        for family, kind, protocol, _, address in found:
            try:
                return await _dial(socket.socket(family, kind, protocol), address)
            except OSError as error:
                failure = error
        raise AddressError(unreachable(host, port, failure)) from failure

    def address(self, listener: Listener[ByteStream]) -> Address:
        if not isinstance(listener, TcpListener):
            raise TypeError(f"{type(listener).__name__} was not made by this transport's listen()")
        return listener.address


class Waits:
    """The waits of a stream or listener for its socket, which closing ends."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._scopes: set[anyio.CancelScope] = set()
        self._closed = False

    async def until(self, ready: Callable[[socket.socket], Awaitable[None]]) -> None:
        """Wait for the socket. Raises `ClosedResourceError` once it is closed."""
        self.check()
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await ready(self._sock)
            finally:
                self._scopes.discard(scope)
        self.check()

    def check(self) -> None:
        if self._closed:
            raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        self._closed = True
        for scope in tuple(self._scopes):
            scope.cancel()
        with anyio.CancelScope(shield=True):
            while self._scopes:  # a waiter must have let go before its descriptor can be another socket's
                await anyio.lowlevel.checkpoint()
        self._sock.close()


class TcpStream(ByteStream):
    """A connected socket. Reads from it only when asked to, so a slow receiver stops its sender."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._waits = Waits(sock)
        tune(sock, _DEAD_AFTER_S)

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.local_address: lambda: local_address(self._sock)}

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.lowlevel.checkpoint()
        while True:
            self._waits.check()
            try:
                data = self._sock.recv(max_bytes)
            except BlockingIOError:
                await self._waits.until(anyio.wait_readable)
            except OSError as error:
                raise anyio.BrokenResourceError from error
            else:
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            self._waits.check()
            try:
                rest = rest[self._sock.send(rest) :]
            except BlockingIOError:
                await self._waits.until(anyio.wait_writable)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        with suppress(OSError):  # the peer may be gone already
            self._sock.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        await self._waits.aclose()


class TcpListener(Listener[ByteStream]):
    """A bound socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.address = local_address(sock)
        self._sock = sock
        self._waits = Waits(sock)

    async def serve(self, handler: Callable[[ByteStream], Any], task_group: TaskGroup | None = None) -> None:
        if task_group is not None:
            await self._serve(handler, task_group)
        async with anyio.create_task_group() as group:
            await self._serve(handler, group)

    async def _serve(self, handler: Callable[[ByteStream], Any], group: TaskGroup) -> None:
        while True:
            await self._waits.until(anyio.wait_readable)
            try:
                accepted, _ = self._sock.accept()
            except BlockingIOError:  # the dialer has left again
                continue
            except OSError:  # no descriptor is free: wait until some connection ends
                await anyio.sleep(_RETRY_S)
                continue
            group.start_soon(handler, TcpStream(accepted))

    async def aclose(self) -> None:
        await self._waits.aclose()


async def _dial(sock: socket.socket, address: Any) -> TcpStream:
    try:
        sock.setblocking(False)
        with anyio.fail_after(_CONNECT_TIMEOUT_S):
            code = sock.connect_ex(address)
            if code == errno.EINPROGRESS:
                await anyio.wait_writable(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        return TcpStream(sock)
    except BaseException:
        sock.close()
        raise
