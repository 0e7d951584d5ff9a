"""HTTP/1.1 as uvicorn speaks it, to clients that say in time what they want and read in time what they get."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import Described

_log = logging.getLogger("truecluster.serve")

HEAD_TIMEOUT = 30.0
"""Seconds that a client may take to send a request's head; uvicorn itself waits for ever."""
SEND_TIMEOUT = 60.0
"""Seconds that a client may leave what it is sent unread; uvicorn itself waits for ever."""


class PromptProtocol(H11Protocol):
    """Closes a connection on which a request's head doesn't come in time, so that idle ones can't take all places.

    One whose client doesn't read is cut, and with it ends what it asked for.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._go_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(SEND_TIMEOUT, self._cut)

    def resume_writing(self) -> None:
        self._go_on()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """In OpenAI's shape; nothing where an answer was sent before the request was whole."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = Described(status=400, message=f"{msg} Send HTTP/1.1 as RFC 9112 has it.").response()
            headers = [*response.raw_headers, (b"connection", b"close")]
            answer = (h11.Response(status_code=400, headers=headers), h11.Data(data=bytes(response.body)))
            for event in (*answer, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self._close()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT, self._close)

    def _close(self) -> None:
        """Once the client has read what it was sent, or hasn't in time."""
        self.transport.close()
        self._forget()
        self._deadline = self.loop.call_later(SEND_TIMEOUT, self._cut)

    def _cut(self) -> None:
        _log.warning("a client didn't read what it was sent for %.0f seconds and was left", SEND_TIMEOUT)
        self.transport.abort()

    def _go_on(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
