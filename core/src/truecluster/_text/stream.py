"""From an engine's events in tokens to events in text, for a thread that waits and for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable
from queue import SimpleQueue

from anyio import to_thread

from truecluster._engine.requests import Event, FinishedEvent, FinishReason
from truecluster.api import NodeError

from .requests import Completion, Engine, TextDelta, TextEvent, TextFinished, TextRequest
from .stops import StopStrings


class Assembler:
    """Turns the token events of one request into text events; knows no thread and no clock."""

    def __init__(self, request: TextRequest) -> None:
        self._is_control = request.tokenizer.is_control
        self._detokenizer = request.tokenizer.detokenizer()
        self._stops = StopStrings(request.stop)
        self._ids: list[int] = []
        self.done = False

    def feed(self, events: Iterable[Event]) -> list[TextEvent]:
        """The text events that follow; what comes after the end is dropped."""
        answer: list[TextEvent] = []
        for event in events:
            if not self.done:
                answer += self._finish(event) if isinstance(event, FinishedEvent) else self._token(event.id)
        return answer

    def _token(self, id: int) -> list[TextEvent]:
        self._ids.append(id)
        text, stopped = self._stops.push("" if self._is_control(id) else self._detokenizer.push(id))
        end = self._end("stop", len(self._ids)) if stopped else []
        return [*_delta(text), *end]

    def _finish(self, event: FinishedEvent) -> list[TextEvent]:
        text, stopped = self._stops.push(self._detokenizer.finish())
        text += "" if stopped else self._stops.finish()
        return [*_delta(text), *self._end("stop" if stopped else event.reason, event.generated, event.message)]

    def _end(self, reason: FinishReason, generated: int, message: str | None = None) -> list[TextEvent]:
        self.done = True
        return [TextFinished(reason=reason, ids=tuple(self._ids), generated=generated, message=message)]


def _delta(text: str) -> list[TextEvent]:
    return [TextDelta(text)] if text else []


def stream(engine: Engine, request: TextRequest) -> Generator[TextEvent, None, None]:
    """The answer as it grows, for a thread of its own; closing the iterator early cancels the request."""
    assembler = Assembler(request)
    inbox: SimpleQueue[Event] = SimpleQueue()
    handle = engine.submit(request.tokens, inbox.put)
    try:
        while not assembler.done:
            yield from assembler.feed([inbox.get()])
    finally:
        handle.cancel()


class _Inbox:
    """Hands events from an engine's thread to an event loop, ``patient``: all at the end."""

    def __init__(self, patient: bool) -> None:
        self._patient = patient
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._events: deque[Event] = deque()

    def put(self, event: Event) -> None:
        self._events.append(event)
        if self._patient and not isinstance(event, FinishedEvent):
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            self._loop.call_soon_threadsafe(self._filled.set)

    async def take(self) -> list[Event]:
        await self._filled.wait()
        self._filled.clear()
        return [self._events.popleft() for _ in range(len(self._events))]


async def astream(engine: Engine, request: TextRequest, patient: bool = False) -> AsyncGenerator[TextEvent, None]:
    """The answer as it grows, for an event loop, on which no text is made. Close it (``aclosing``) to cancel.

    ``patient``: nothing is done before the engine is done, so that no token wakes a thread for nothing.
    """
    assembler = Assembler(request)
    inbox = _Inbox(patient)
    handle = engine.submit(request.tokens, inbox.put)
    try:
        while not assembler.done:
            for event in await to_thread.run_sync(assembler.feed, await inbox.take()):
                yield event
    finally:
        handle.cancel()


def complete(engine: Engine, request: TextRequest) -> Completion:
    """The whole answer. Raises `NodeError` with what failed."""
    return _completion(request, list(stream(engine, request)))


async def acomplete(engine: Engine, request: TextRequest) -> Completion:
    """As `complete`, for an event loop; cancelling the caller cancels the request."""
    patient = not request.stop  # a stop string ends the generation, so it has to be looked for
    async with contextlib.aclosing(astream(engine, request, patient)) as events:
        return _completion(request, [event async for event in events])


def _completion(request: TextRequest, events: list[TextEvent]) -> Completion:
    finished = events[-1]
    assert isinstance(finished, TextFinished)
    if finished.reason not in ("stop", "length"):
        raise NodeError(finished.message or "the request was cancelled before it was answered; try again")
    return Completion(
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        ids=finished.ids,
        finish_reason=finished.reason,
        prompt_tokens=len(request.tokens.prompt),
        completion_tokens=finished.generated,
    )
