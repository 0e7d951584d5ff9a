"""Server-sent events: frames, and a response that ends with its client."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .counted import note_failure
from .errors import describe
from .waiting import while_connected

_log = logging.getLogger("truecluster.serve")

DONE = b"data: [DONE]\n\n"
SEND_TIMEOUT = 60.0
"""Seconds that a client may leave what it is sent unread."""


def frame(value: Mapping[str, Any]) -> bytes:
    """One event; JSON has no line breaks."""
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class EventStream(Response):
    """Sends ``frames`` as they come, and closes them when the client goes.

    The status waits for the first frame, so that a failure before it is answered with a status of its own. A later
    one is told in a last event, an object with ``error``, after which there is no ``[DONE]``.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            await while_connected(Request(scope, receive), partial(self._run, scope, send))

    async def _run(self, scope: Scope, send: Send) -> None:
        async with contextlib.aclosing(self._frames) as frames:
            first = await anext(frames)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await _send(send, first)
            while (following := await _next(scope, frames)) is not None:
                await _send(send, following)
        await _send(send, b"", more=False)


async def _next(scope: Scope, frames: AsyncGenerator[bytes, None]) -> bytes | None:
    """The next frame, an error as a frame, or ``None`` at the end."""
    try:
        return await anext(frames, None)
    except Exception as error:
        note_failure(scope)
        return frame(describe(error).body)


async def _send(send: Send, body: bytes, more: bool = True) -> None:
    try:
        with anyio.fail_after(SEND_TIMEOUT):
            await send({"type": "http.response.body", "body": body, "more_body": more})
    except TimeoutError:
        _log.warning("a client didn't read its stream for %.0f seconds and was left", SEND_TIMEOUT)
        raise ClientDisconnect from None
