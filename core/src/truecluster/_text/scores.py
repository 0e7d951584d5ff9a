"""How likely a model found the tokens of an answer."""

from __future__ import annotations

import attrs


@attrs.frozen
class Likely:
    """A token as bytes, which may be half a character, and its natural log-probability, which may be -inf."""

    data: bytes
    logprob: float


@attrs.frozen(kw_only=True)
class Scored:
    """A token of the answer, the likeliest ones in its place, and where in the answer it begins (characters)."""

    token: Likely
    top: tuple[Likely, ...]
    offset: int
