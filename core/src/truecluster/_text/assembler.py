"""From one request's tokens to its text: detokenizing, stop strings, tool calls and scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from truecluster._engine.requests import Event, FinishedEvent, FinishReason, PromptEvent, TokenEvent

from .calls import CallParser, NoCalls
from .requests import TextDelta, TextEvent, TextFinished, TextRequest, ToolCalled
from .scores import Likely, Scored
from .stops import StopStrings
from .tools import ToolCall


class Assembler:
    """Turns the token events of one request into text events; knows no thread and no clock."""

    def __init__(self, request: TextRequest) -> None:
        self._tokenizer = request.tokenizer
        self._detokenizer = request.tokenizer.detokenizer()
        self._stops = StopStrings(request.stop)
        self._calls = CallParser(request.calls) if request.calls else NoCalls()
        self._marks = {request.tokenizer.id(mark): mark for mark in self._calls.marks}
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
            self._score(*self._unscored.popleft(), event)
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
            self._score(event.id, self._seen, event)
        fresh = self._text(event.id)
        self._seen += len(fresh)
        text, stopped = self._stops.push(fresh)
        told = self._delta(text)
        return [*told, *self._end("stop", len(self._ids))] if stopped or self._calls.enough else told

    def _text(self, id: int) -> str:
        """What a token adds; a control token has no text, except that a call's marks must be seen."""
        if not self._tokenizer.is_control(id):
            return self._detokenizer.push(id)
        return self._detokenizer.finish() + self._marks[id] if id in self._marks else ""

    def _finish(self, event: FinishedEvent) -> list[TextEvent]:
        text, stopped = self._stops.push(self._detokenizer.finish())
        text += "" if stopped else self._stops.finish()
        told = self._delta(text, whole=not stopped)
        return [*told, *self._end("stop" if stopped else event.reason, event.generated, event.message)]

    def _delta(self, text: str, whole: bool = False) -> list[TextEvent]:
        """Text and its tokens; ``whole`` with those, at the answer's end, that have no text."""
        self._given += len(text)
        ready = tuple(takewhile(lambda scored: whole or scored.offset < self._given, self._scores))
        del self._scores[: len(ready)]
        return _told(self._calls.push(text), ready)

    def _score(self, id: int, offset: int, event: PromptEvent | TokenEvent | None) -> None:
        told = event and event.logprobs
        top = tuple(self._likely(*each) for each in told.top) if told else ()
        self._scores.append(Scored(token=self._likely(id, told.own if told else None), top=top, offset=offset))

    def _likely(self, id: int, logprob: float | None) -> Likely:
        return Likely(self._tokenizer.bytes_of(id), logprob)

    def _end(self, reason: FinishReason, generated: int, message: str | None = None) -> list[TextEvent]:
        self.done = True
        rest = _told(self._calls.finish(), ())
        ended = "tool_calls" if reason == "stop" and self._calls.called else reason
        ids, cached = tuple(self._ids), self._cached
        finished = TextFinished(reason=ended, ids=ids, generated=generated, cached=cached, message=message)
        return [*rest, finished]


def _told(parts: Sequence[str | ToolCall], scores: tuple[Scored, ...]) -> list[TextEvent]:
    """The parts of an answer as events, the scores with the first text or before the first call."""
    first, others = (parts[0], parts[1:]) if parts and isinstance(parts[0], str) else ("", parts)
    begin = [TextDelta(first, scores)] if first or scores else []
    return [*begin, *(TextDelta(part) if isinstance(part, str) else ToolCalled(part) for part in others)]
