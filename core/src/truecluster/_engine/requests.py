"""What the engine takes and tells, in tokens: frozen values, so that text and HTTP could be another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import attrs

FinishReason = Literal["stop", "length", "cancelled", "error"]


@attrs.frozen(kw_only=True)
class Sampling:
    """``temperature`` 0 is greedy; ``top_p`` 1 keeps all; an unseeded request gets a random seed at admission."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


@attrs.frozen(kw_only=True)
class Request:
    """A prompt in tokens, at least one. ``max_tokens`` counts what is generated; any id of ``eos`` ends it."""

    prompt: tuple[int, ...]
    max_tokens: int
    eos: frozenset[int]
    sampling: Sampling = Sampling()


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
