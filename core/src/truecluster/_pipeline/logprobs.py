"""Log-probabilities of a token, as values."""

from __future__ import annotations

import attrs


@attrs.frozen
class Logprobs:
    """Natural logarithms. ``own`` is the token's; ``top`` are (id, logarithm) of the likeliest tokens, falling."""

    own: float
    top: tuple[tuple[int, float], ...] = ()
