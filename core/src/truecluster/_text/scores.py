"""How likely a model found the tokens of an answer."""

from __future__ import annotations

import attrs


@attrs.frozen
class Likely:
    """A token as bytes, which may be half a character, and its natural log-probability, which may be -inf.

    ``None`` where nothing comes before it.
    """

    data: bytes
    logprob: float | None


@attrs.frozen(kw_only=True)
class Scored:
    """A token of the answer or of the prompt that it echoes, the likeliest ones in its place, and where it begins.

    ``offset`` is in characters of the answer.
    """

    token: Likely
    top: tuple[Likely, ...]
    offset: int
