"""Streamed requests, each on a connection of its own, and when each piece of their answers came.

Plain `http.client` in threads: it takes the least of the cores that the server is measured on.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from .samples import NO_ANSWER, OK, Sample
from .target import Target, server_error

Body = Mapping[str, Any]
COMPLETIONS, CHAT = "/completions", "/chat/completions"
DONE = b"[DONE]"


@attrs.define
class _Answer:
    """What came so far."""

    status: int = NO_ANSWER
    error: str = ""
    times: list[float] = attrs.field(factory=list)
    usage: Mapping[str, int] = attrs.field(factory=dict)
    retry_after: float = 0.0
    complete: bool = False


class Client:
    """Any number of requests at once, from any threads. Times are told by one clock, which begins at 0."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.stopped = threading.Event()
        self._began = time.perf_counter()
        self._changing = threading.Lock()
        self._open: set[socket.socket] = set()

    def now(self) -> float:
        """Seconds since this client was made."""
        return time.perf_counter() - self._began

    def stop(self) -> None:
        """Give up what is under way; those requests end with an error."""
        self.stopped.set()
        with self._changing:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def ask(self, body: Body, heard: Callable[[float], object] = lambda now: None) -> Sample:
        """Stream a completion, or a chat where ``body`` has messages. ``heard`` is told when text comes, by `now`.

        Never raises for what the server does: see `Sample.error`.
        """
        answer, sent = _Answer(), self.now()
        try:
            with self._connection() as connection:
                self._exchange(connection, body, answer, heard)
            if answer.status == OK and not answer.complete and not answer.error:
                answer.error = "the stream broke off"
        except (OSError, http.client.HTTPException, ValueError) as error:
            answer.error = f"{type(error).__name__}: {error}"
        return Sample(
            sent=sent,
            status=answer.status,
            ended=self.now() - sent,
            error=answer.error,
            times=tuple(at - sent for at in answer.times),
            prompt_tokens=answer.usage.get("prompt_tokens", 0),
            tokens=answer.usage.get("completion_tokens", 0),
            retry_after=answer.retry_after,
        )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = self.target.connect()
        connection.connect()
        sock = connection.sock  # the connection itself forgets it while the answer is still read
        with self._changing:
            self._open.add(sock)
        try:
            if self.stopped.is_set():
                raise ConnectionAbortedError("stopped")
            yield connection
        finally:
            with self._changing:
                self._open.remove(sock)
            connection.close()

    def _exchange(
        self, connection: http.client.HTTPConnection, body: Body, answer: _Answer, heard: Callable[[float], object]
    ) -> None:
        route = CHAT if "messages" in body else COMPLETIONS
        whole = {"model": self.target.model, "stream": True, "stream_options": {"include_usage": True}, **body}
        connection.request("POST", self.target.path(route), json.dumps(whole), self.target.headers)
        with connection.getresponse() as response:
            answer.status = response.status
            if response.status != OK:
                answer.error = server_error(response.read())
                answer.retry_after = _seconds(response.getheader("Retry-After"))
                return
            for line in iter(response.readline, b""):
                if line.startswith(b"data:"):
                    self._take(line[5:].strip(), answer, heard)

    def _take(self, data: bytes, answer: _Answer, heard: Callable[[float], object]) -> None:
        if data == DONE:
            answer.complete = True
            return
        at, chunk = self.now(), json.loads(data)
        if "error" in chunk:
            answer.error = server_error(data)
        answer.usage = chunk.get("usage") or answer.usage
        if any(map(_carries_text, chunk.get("choices", ()))):
            answer.times.append(at)
            heard(at)


def _carries_text(choice: Mapping[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    return bool(choice.get("text")) or any(value for name, value in delta.items() if name != "role")


def _seconds(given: str | None) -> float:
    """Of a ``Retry-After``; 1 where it names none."""
    return float(given) if given is not None and given.isdecimal() else 1.0
