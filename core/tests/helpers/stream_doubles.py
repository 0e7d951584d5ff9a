"""A right transport of streams over loopback sockets, the short way, for doubles that are wrong in one way."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, Listener

from truecluster.api import AddressError, StreamTransport


class Waits:
    """What waits for a socket ends when it is closed."""

    def __init__(self, sock):
        sock.setblocking(False)
        self.sock, self.scopes, self.closed = sock, set(), False

    def check(self):
        if self.closed:
            raise anyio.ClosedResourceError

    async def until(self, ready):
        with anyio.CancelScope() as scope:
            self.scopes.add(scope)
            try:
                await ready(self.sock)
            finally:
                self.scopes.discard(scope)
        if self.closed:
            raise anyio.ClosedResourceError

    async def aclose(self):
        self.closed = True
        for scope in list(self.scopes):
            scope.cancel()
        with anyio.CancelScope(shield=True):
            while self.scopes:
                await anyio.lowlevel.checkpoint()
        self.sock.close()


class Stream(Waits, ByteStream):
    """``transport`` made it."""

    def __init__(self, sock, transport):
        super().__init__(sock)
        self.transport = transport

    async def receive(self, max_bytes=65536):
        await anyio.lowlevel.checkpoint()
        self.check()
        data = await self.take(max_bytes)
        if not data:
            raise anyio.EndOfStream
        return data

    async def take(self, max_bytes):
        while True:
            try:
                return self.sock.recv(max_bytes)
            except BlockingIOError:
                await self.until(anyio.wait_readable)
            except OSError as error:
                self.lost(error)

    def lost(self, error):
        raise anyio.BrokenResourceError from error

    async def send(self, item):
        await anyio.lowlevel.checkpoint()
        self.check()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self.sock.send(rest) :]
            except BlockingIOError:
                await self.until(anyio.wait_writable)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self):
        self.shut(socket.SHUT_WR)

    def shut(self, how):
        with suppress(OSError):
            self.sock.shutdown(how)


class Desk(Waits, Listener):
    """Accepts for ``transport``."""

    def __init__(self, sock, transport):
        super().__init__(sock)
        self.transport, self.address = transport, sock.getsockname()

    async def serve(self, handler, task_group=None):
        async with anyio.create_task_group() as group:
            while True:
                await self.until(anyio.wait_readable)
                with suppress(BlockingIOError):
                    self.start(group, handler, self.transport.stream(self.sock.accept()[0], self.transport))

    def start(self, group, handler, stream):
        group.start_soon(handler, stream)


class Streams(StreamTransport):
    stream, desk = Stream, Desk

    def __init__(self):
        self.kept = []

    def check_port(self, port):
        if not 0 <= port <= 65535:
            raise AddressError(f"no port {port}")

    async def listen(self, host, port):
        self.check_port(port)
        sock = socket.socket()
        try:
            self.prepare(sock)
            sock.bind((host, port))
            sock.listen(100)
        except Exception as error:
            sock.close()
            if not isinstance(error, OSError):
                raise
            raise AddressError(f"port {port}: {error}") from error
        return self.desk(sock, self)

    def prepare(self, sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    async def connect(self, host, port):
        self.check_port(port)
        sock = socket.socket()
        try:
            await self.dial(sock, host, port)
        except BaseException:
            self.drop(sock)
            raise
        return self.stream(sock, self)

    async def dial(self, sock, host, port):
        sock.setblocking(False)
        await anyio.lowlevel.checkpoint()
        code = sock.connect_ex((host, port))
        if code == errno.EINPROGRESS:
            await anyio.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.refused(port, code)

    def refused(self, port, code):
        raise AddressError(f"port {port}: error {code}")

    def drop(self, sock):
        sock.close()

    def address(self, listener):
        return listener.address

    def release(self):
        for sock in self.kept:
            sock.close()
