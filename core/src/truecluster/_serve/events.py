"""Server-sent events: frames, and a response that ends with its client."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .counted import note_failure
from .errors import describe
from .waiting import while_connected

DONE = b"data: [DONE]\n\n"


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
            await send({"type": "http.response.body", "body": first, "more_body": True})
            while (following := await _next(scope, frames)) is not None:
                await send({"type": "http.response.body", "body": following, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _next(scope: Scope, frames: AsyncGenerator[bytes, None]) -> bytes | None:
    """The next frame, an error as a frame, or ``None`` at the end."""
    try:
        return await anext(frames, None)
    except Exception as error:
        note_failure(scope)
        return frame(describe(error).body)
