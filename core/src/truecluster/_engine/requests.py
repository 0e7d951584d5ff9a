"""What the engine takes and tells, in tokens: frozen values, so that text and HTTP could be another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs

from truecluster.api import RequestError

MAX_TEMPERATURE = 1e6
"""Beyond it every token is equally likely, to fp32."""

FinishReason = Literal["stop", "length", "cancelled", "error"]


def _between(low: float, high: float) -> Any:
    def check(instance: object, field: Any, value: float | None) -> None:
        if value is not None and not low <= value <= high:
            raise RequestError(f"{field.name!r} must be from {low} to {high}, not {value}", field.name)

    return check


@attrs.frozen(kw_only=True)
class Sampling:
    """``temperature`` 0 is greedy; ``top_p`` 1 keeps all; an unseeded request gets a random seed at admission.

    Raises `RequestError` naming a field that is out of range; a seed has 64 bits.
    """

    temperature: float = attrs.field(default=0.0, validator=_between(0, MAX_TEMPERATURE))
    top_p: float = attrs.field(default=1.0, validator=_between(0, 1))
    seed: int | None = attrs.field(default=None, validator=_between(-(1 << 63), (1 << 63) - 1))


@attrs.frozen(kw_only=True)
class Request:
    """A prompt in tokens, at least one. ``max_tokens`` counts what is generated; any id of ``eos`` ends it.

    ``choice`` tells apart requests that differ in nothing else, so that one seed gives each an answer of its own.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    eos: frozenset[int]
    sampling: Sampling = Sampling()
    choice: int = 0


@attrs.frozen
class TokenEvent:
    """A token was generated; an eos id is not reported as a token, but counted in `FinishedEvent.generated`."""

    id: int


@attrs.frozen(kw_only=True)
class FinishedEvent:
    """The last event of a request. ``message`` says what failed, for the user, where ``reason`` is ``error``."""

    reason: FinishReason
    generated: int
    message: str | None = None


Event = TokenEvent | FinishedEvent

OnEvent = Callable[[Event], None]
"""Called on the engine's thread, or on that of whoever submits or cancels a request that no run has taken yet.

Must return at once and must not raise.
"""
