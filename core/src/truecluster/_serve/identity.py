"""A name for every request, which its answer carries and the log knows."""

from __future__ import annotations

import secrets
from contextvars import ContextVar

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"

_current: ContextVar[str] = ContextVar("request_id", default="")


def request_id() -> str:
    """Of the request that is being answered."""
    return _current.get()


class Identified:
    """An application whose answers carry the request's name in ``x-request-id``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = f"req_{secrets.token_hex(12)}"
        _current.set(name)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = name
            await send(message)

        await self._app(scope, receive, named)
