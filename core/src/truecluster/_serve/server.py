"""Serving an application on a socket that is bound before anything slow begins."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import anyio
import uvicorn
from starlette.types import ASGIApp

from truecluster.api import AddressError

from .protocol import PromptProtocol

_BACKLOG = 128
_MAX_HEADERS = 64 * 1024
_MAX_CONNECTIONS = 1024
_KEEP_ALIVE = 30
_GRACE = 2


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen now; port 0 takes a free one. Raises `AddressError` naming the address and the remedy."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise AddressError(f"{host!r} is no address of this machine ({error.strerror}); try 127.0.0.1") from error
    try:
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise AddressError(f"can't serve on {host}:{port}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; choose another with --api-port, or 0 for a free one"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this port isn't allowed; choose one above 1023 with --api-port"
    return f"{error.strerror}; choose an address of this machine with --api-host"


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the event loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PromptProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_MAX_HEADERS,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_GRACE,
    )


async def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Serve until cancelled; then requests under way get two seconds, and the socket is closed."""
    server = _Server(_config(app))

    async def stop_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True

    async with anyio.create_task_group() as group:
        group.start_soon(stop_when_cancelled)
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[sock])
        group.cancel_scope.cancel()
