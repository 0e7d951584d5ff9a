"""What the engine takes and tells, in tokens: frozen values, so that text and HTTP could be another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import attrs

from truecluster._pipeline.logprobs import Logprobs
from truecluster._wire import limits
from truecluster.api import RequestError

MAX_TEMPERATURE = 1e6
"""Beyond it every token is equally likely, to fp32."""
MAX_ID = (1 << 31) - 1
"""Token ids are int32."""

FinishReason = Literal["stop", "length", "cancelled", "error"]


def _between(low: float, high: float) -> Any:
    def check(instance: object, field: Any, value: float | None) -> None:
        if value is not None and not low <= value <= high:
            raise RequestError(f"{field.name!r} must be from {low} to {high}, not {value}", field.name)

    return check


def _biases(instance: object, field: Any, values: Mapping[int, float]) -> None:
    if len(values) > limits.MAX_BIAS:
        raise RequestError(f"'logit_bias' names {len(values)} tokens; give at most {limits.MAX_BIAS}", "logit_bias")
    for id, value in values.items():
        if not 0 <= id <= MAX_ID:
            raise RequestError(f"'logit_bias' names {id}, which is no token id", "logit_bias")
        if not -100 <= value <= 100:
            raise RequestError(f"'logit_bias' of token {id} must be from -100 to 100, not {value}", "logit_bias")


@attrs.frozen(kw_only=True)
class Sampling:
    """How to sample; the defaults are greedy. ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 keep all; without ``seed`` it is
    random.

    ``repetition_penalty`` divides logits, of the prompt's tokens, too; ``presence_penalty`` and ``frequency_penalty``
    are taken from those of the answer's tokens; ``logit_bias`` is added, by token id. ``logprobs`` is how many of the
    likeliest tokens come with each token's own log-probability, ``None`` for neither. What each does, and in which
    order, is in `sampler`.

    Raises `RequestError` naming a field that is out of range; a seed has 64 bits.
    """

    temperature: float = attrs.field(default=0.0, validator=_between(0, MAX_TEMPERATURE))
    top_k: int = attrs.field(default=0, validator=_between(0, MAX_ID))
    top_p: float = attrs.field(default=1.0, validator=_between(0, 1))
    min_p: float = attrs.field(default=0.0, validator=_between(0, 1))
    repetition_penalty: float = attrs.field(default=1.0, validator=_between(0.01, 100))
    presence_penalty: float = attrs.field(default=0.0, validator=_between(-2, 2))
    frequency_penalty: float = attrs.field(default=0.0, validator=_between(-2, 2))
    logit_bias: Mapping[int, float] = attrs.field(factory=dict, validator=_biases)
    logprobs: int | None = attrs.field(default=None, validator=_between(0, limits.MAX_LOGPROBS))
    seed: int | None = attrs.field(default=None, validator=_between(-(1 << 63), (1 << 63) - 1))


class Constraint(Protocol):
    """Which tokens one answer may have next. It is used on the engine's thread alone."""

    def mask(self) -> bytes:
        """A bit for each id that may come next, least significant first; the request's eos ids where it may end.

        Raises `RequestError` where that can't be told.
        """
        ...

    def accept(self, token: int) -> bool:
        """``token``, which is no eos id, came next; says whether nothing may follow it."""
        ...


@attrs.frozen(kw_only=True)
class Request:
    """A prompt in tokens, at least one. ``max_tokens`` counts what is generated; any id of ``eos`` ends it.

    ``choice`` tells apart requests that differ in nothing else, so that one seed gives each an answer of its own.
    ``constraint`` makes what says which tokens the answer may have.
    Requests of different ``owner`` take turns where they have to wait.
    ``prompt_logprobs``: with the sampling's ``logprobs`` the prompt's tokens are told, too, as `PromptEvent`.

    Raises `RequestError` where a prompt is too long for that.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    eos: frozenset[int]
    sampling: Sampling = Sampling()
    constraint: Callable[[], Constraint] | None = None
    choice: int = 0
    owner: str = ""
    prompt_logprobs: bool = attrs.field(default=False)

    @prompt_logprobs.validator
    def _can_be_told(self, attribute: object, value: bool) -> None:
        if value and len(self.prompt) > limits.MAX_TOKENS:
            raise RequestError(f"with 'logprobs' a prompt of at most {limits.MAX_TOKENS} tokens can be echoed", "echo")


@attrs.frozen
class CachedEvent:
    """So many tokens of the prompt, the first ones, don't go through the stages: pages hold what they would make.

    The first event, where there are any.
    """

    tokens: int


@attrs.frozen
class PromptEvent:
    """How likely the next token of the prompt is, from the second one on: nothing comes before the first."""

    logprobs: Logprobs


@attrs.frozen
class TokenEvent:
    """A token was generated; an eos id is not reported as a token, but counted in `FinishedEvent.generated`."""

    id: int
    logprobs: Logprobs | None = None


@attrs.frozen(kw_only=True)
class FinishedEvent:
    """The last event of a request. ``message`` says what failed, for the user, where ``reason`` is ``error``."""

    reason: FinishReason
    generated: int
    message: str | None = None


Event = CachedEvent | PromptEvent | TokenEvent | FinishedEvent

OnEvent = Callable[[Event], None]
"""Called on the engine's thread, or on that of whoever submits or cancels a request that no run has taken yet.

Must return at once and must not raise.
"""
