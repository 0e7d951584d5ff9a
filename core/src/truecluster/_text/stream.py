"""From an engine's events in tokens to events in text, for a thread that waits and for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from functools import partial
from queue import SimpleQueue

from anyio import to_thread

from truecluster._engine.requests import Event, FinishedEvent
from truecluster.api import NodeError

from .assembler import Assembler
from .requests import (
    AnswerEnd,
    Completion,
    Engine,
    Handle,
    TextDelta,
    TextEvent,
    TextFinished,
    TextRequest,
    ToolCalled,
)

FEW = 32
"""Tokens whose text an event loop makes itself, in microseconds; a thread's turn costs a tenth of a millisecond."""


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
    """Hands events of numbered requests from an engine's thread to an event loop, ``patient``: at a request's end."""

    def __init__(self, patient: bool) -> None:
        self._patient = patient
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._events: deque[tuple[int, Event]] = deque()

    def put(self, index: int, event: Event) -> None:
        self._events.append((index, event))
        if self._patient and not isinstance(event, FinishedEvent):
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            self._loop.call_soon_threadsafe(self._filled.set)

    async def take(self) -> list[tuple[int, Event]]:
        await self._filled.wait()
        self._filled.clear()
        return [self._events.popleft() for _ in range(len(self._events))]


async def astream(
    engine: Engine, requests: Sequence[TextRequest], patient: bool = False
) -> AsyncGenerator[tuple[int, TextEvent], None]:
    """The answers as they grow, each event with its request's place, for an event loop.

    Close it (``aclosing``) to cancel. ``patient``: nothing is done before the engine is done with a request, so that
    no token wakes a thread for nothing. Raises what `Engine.submit` raises; then none of the requests is under way.
    """
    assemblers = [Assembler(request) for request in requests]
    handles: list[Handle] = []
    inbox = _Inbox(patient)

    def feed(events: Sequence[tuple[int, Event]]) -> list[tuple[int, TextEvent]]:
        return [(index, text) for index, event in events for text in assemblers[index].feed([event])]

    try:
        for index, request in enumerate(requests):
            handles.append(engine.submit(request.tokens, partial(inbox.put, index)))
        while not all(assembler.done for assembler in assemblers):
            for index, event in await _made(feed, await inbox.take()):
                if isinstance(event, TextFinished):
                    handles[index].cancel()
                yield index, event
    finally:
        for handle in handles:
            handle.cancel()


async def _made(
    feed: Callable[[Sequence[tuple[int, Event]]], list[tuple[int, TextEvent]]], events: Sequence[tuple[int, Event]]
) -> list[tuple[int, TextEvent]]:
    return feed(events) if len(events) <= FEW else await to_thread.run_sync(feed, events)


def complete(engine: Engine, request: TextRequest) -> Completion:
    """The whole answer. Raises `NodeError` with what failed."""
    return _completion(request, list(stream(engine, request)))


async def acomplete(engine: Engine, requests: Sequence[TextRequest]) -> list[Completion]:
    """As `complete`, for an event loop and several requests; cancelling the caller, or a failure, cancels them all."""
    patient = not any(request.ends_by_text for request in requests)
    answers: list[list[TextEvent]] = [[] for _ in requests]
    done: dict[int, Completion] = {}
    async with contextlib.aclosing(astream(engine, requests, patient)) as events:
        async for index, event in events:
            answers[index].append(event)
            if isinstance(event, TextFinished):
                done[index] = _completion(requests[index], answers[index])
    return [done[index] for index in range(len(requests))]


def succeeded(finished: TextFinished) -> AnswerEnd:
    """Why the answer ended. Raises `NodeError` with what failed."""
    if finished.reason not in ("stop", "length", "tool_calls"):
        raise NodeError(finished.message or "the request was cancelled before it was answered; try again")
    return finished.reason


def _completion(request: TextRequest, events: list[TextEvent]) -> Completion:
    finished = events[-1]
    assert isinstance(finished, TextFinished)
    deltas = [event for event in events if isinstance(event, TextDelta)]
    return Completion(
        text="".join(delta.text for delta in deltas),
        ids=finished.ids,
        finish_reason=succeeded(finished),
        prompt_tokens=len(request.tokens.prompt),
        cached_tokens=finished.cached,
        completion_tokens=finished.generated,
        scores=tuple(scored for delta in deltas for scored in delta.scores),
        calls=tuple(event.call for event in events if isinstance(event, ToolCalled)),
    )
