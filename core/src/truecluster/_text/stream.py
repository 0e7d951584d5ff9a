"""From an engine's events in tokens to events in text, for a thread that waits and for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import takewhile
from queue import SimpleQueue

from anyio import to_thread

from truecluster._engine.requests import Event, FinishedEvent, FinishReason, PromptEvent, TokenEvent
from truecluster._pipeline.logprobs import Logprobs
from truecluster.api import NodeError

from .requests import AnswerEnd, Completion, Engine, Handle, TextDelta, TextEvent, TextFinished, TextRequest
from .scores import Likely, Scored
from .stops import StopStrings

FEW = 32
"""Tokens whose text an event loop makes itself, in microseconds; a thread's turn costs a tenth of a millisecond."""


class Assembler:
    """Turns the token events of one request into text events; knows no thread and no clock."""

    def __init__(self, request: TextRequest) -> None:
        self._tokenizer = request.tokenizer
        self._detokenizer = request.tokenizer.detokenizer()
        self._stops = StopStrings(request.stop)
        self._prefix = request.prefix
        self._seen = len(request.prefix)  # characters of the answer, with those that are held back
        self._given = 0
        self._scores: list[Scored] = []
        self._unscored = deque(zip(request.tokens.prompt, request.offsets, strict=False))
        if self._unscored:
            self._score(*self._unscored.popleft(), None)
        self._cached = 0
        self._ids: list[int] = []
        self.done = False

    def feed(self, events: Iterable[Event]) -> list[TextEvent]:
        """The text events that follow; what comes after the end is dropped."""
        answer = self._echo()
        for event in events:
            answer += [] if self.done else self._hear(event)
        return answer

    def _hear(self, event: Event) -> list[TextEvent]:
        if isinstance(event, FinishedEvent):
            return self._finish(event)
        if isinstance(event, TokenEvent):
            return self._token(event)
        if isinstance(event, PromptEvent):
            self._score(*self._unscored.popleft(), event.logprobs)
            return self._echo()
        self._cached = event.tokens
        return []

    def _echo(self) -> list[TextEvent]:
        """The echoed prompt, once it is known how likely its tokens are, where that is asked for."""
        if self._unscored:
            return []
        text, self._prefix = self._prefix, ""
        return self._delta(text)

    def _token(self, event: TokenEvent) -> list[TextEvent]:
        self._ids.append(event.id)
        if event.logprobs is not None:
            self._score(event.id, self._seen, event.logprobs)
        fresh = "" if self._tokenizer.is_control(event.id) else self._detokenizer.push(event.id)
        self._seen += len(fresh)
        text, stopped = self._stops.push(fresh)
        end = self._end("stop", len(self._ids)) if stopped else []
        return [*self._delta(text), *end]

    def _finish(self, event: FinishedEvent) -> list[TextEvent]:
        text, stopped = self._stops.push(self._detokenizer.finish())
        text += "" if stopped else self._stops.finish()
        end = self._end("stop" if stopped else event.reason, event.generated, event.message)
        return [*self._delta(text, whole=not stopped), *end]

    def _delta(self, text: str, whole: bool = False) -> list[TextEvent]:
        """Text and its tokens; ``whole`` with those, at the answer's end, that have no text."""
        self._given += len(text)
        ready = tuple(takewhile(lambda scored: whole or scored.offset < self._given, self._scores))
        del self._scores[: len(ready)]
        return [TextDelta(text, ready)] if text or ready else []

    def _score(self, id: int, offset: int, told: Logprobs | None) -> None:
        top = tuple(self._likely(*each) for each in told.top) if told else ()
        self._scores.append(Scored(token=self._likely(id, told and told.own), top=top, offset=offset))

    def _likely(self, id: int, logprob: float | None) -> Likely:
        return Likely(self._tokenizer.bytes_of(id), logprob)

    def _end(self, reason: FinishReason, generated: int, message: str | None = None) -> list[TextEvent]:
        self.done = True
        ids, cached = tuple(self._ids), self._cached
        return [TextFinished(reason=reason, ids=ids, generated=generated, cached=cached, message=message)]


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
    patient = not any(request.stop for request in requests)  # a stop string ends the generation: it is looked for
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
    if finished.reason not in ("stop", "length"):
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
    )
