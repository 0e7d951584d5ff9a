"""What a text model is asked and answers: frozen values."""

from __future__ import annotations

from typing import Literal, Protocol

import attrs

from truecluster._engine.requests import FinishReason, OnEvent, Request, Sampling
from truecluster.api import RequestError

from .grammar import Grammar
from .scores import Scored
from .tokenizer import Tokenizer
from .tools import CallRules, ToolCall

MAX_STOPS = 4

AnswerEnd = Literal["stop", "length", "tool_calls"]


@attrs.frozen(kw_only=True)
class TextOptions:
    """How to answer. ``max_tokens`` ``None`` takes the default of the kind of prompt; at most four stop strings.

    ``echo``: the text of a raw prompt comes before its answer; ``grammar`` holds for the answer alone. Raises
    `RequestError` naming the field.
    """

    max_tokens: int | None = attrs.field(default=None)
    stop: tuple[str, ...] = attrs.field(default=())
    sampling: Sampling = attrs.field(factory=Sampling)
    echo: bool = False
    grammar: Grammar | None = None

    @max_tokens.validator
    def _not_negative(self, attribute: object, value: int | None) -> None:
        if value is not None and value < 0:
            raise RequestError("'max_tokens' must be at least 0", "max_tokens")

    @stop.validator
    def _can_be_found(self, attribute: object, value: tuple[str, ...]) -> None:
        if len(value) > MAX_STOPS:
            raise RequestError(f"'stop' holds {len(value)} strings; give at most {MAX_STOPS}", "stop")
        if "" in value:
            raise RequestError("'stop' can't hold an empty string", "stop")


@attrs.frozen(kw_only=True)
class TextRequest:
    """A prompt ready for an engine, and what turns its tokens into text. The answer's text begins with ``prefix``.

    ``offsets`` say where in it the prompt's tokens begin whose log-probabilities are told.
    ``calls`` says which tool calls are looked for in it.
    """

    tokens: Request
    stop: tuple[str, ...]
    tokenizer: Tokenizer
    prefix: str = ""
    offsets: tuple[int, ...] = ()
    calls: CallRules | None = None

    @property
    def ends_by_text(self) -> bool:
        """Whether the answer may end by what its text says, while the engine would go on."""
        return bool(self.stop) or (self.calls is not None and self.calls.single)

    def choices(self, count: int, owner: str = "") -> list[TextRequest]:
        """The same request of ``owner`` ``count`` times, each to be answered in its own way."""
        return [attrs.evolve(self, tokens=attrs.evolve(self.tokens, choice=i, owner=owner)) for i in range(count)]


@attrs.frozen
class TextDelta:
    """More text, never part of a stop string, and the scores of its tokens where the request asks for them.

    Text is empty only where tokens without any, or those of a call, come with their scores.
    """

    text: str
    scores: tuple[Scored, ...] = ()


@attrs.frozen
class ToolCalled:
    """The answer calls a tool; its text has nothing of the call."""

    call: ToolCall


@attrs.frozen(kw_only=True)
class TextFinished:
    """The last event. ``ids`` are the tokens without the one that ended them; ``generated`` is what usage counts.

    ``cached`` tokens of the prompt didn't go through the model. ``message`` says what failed where ``reason`` is
    ``error``.
    """

    reason: FinishReason | AnswerEnd
    ids: tuple[int, ...]
    generated: int
    cached: int = 0
    message: str | None = None


TextEvent = TextDelta | ToolCalled | TextFinished


@attrs.frozen(kw_only=True)
class Completion:
    """A whole answer; token counts as OpenAI's usage has them."""

    text: str
    ids: tuple[int, ...]
    finish_reason: AnswerEnd
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    scores: tuple[Scored, ...] = ()
    calls: tuple[ToolCall, ...] = ()


class Handle(Protocol):
    """A request that an engine works on."""

    def cancel(self) -> None:
        """From any thread, any number of times: stop generating. Does nothing once the request is finished."""


class Engine(Protocol):
    """Whatever answers requests in tokens."""

    def submit(self, request: Request, on_event: OnEvent) -> Handle:
        """From any thread, without waiting. Every request, also one for 0 tokens, ends in one `FinishedEvent`."""
        ...
