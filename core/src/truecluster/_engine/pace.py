"""How many tokens of prompts a step may carry beside running streams, by what steps were measured to take."""

from __future__ import annotations

from collections import deque
from statistics import median

STRETCH = 2.5
"""How many times longer than without prompts a step may take."""
LEAST_STRETCH = 1.5
"""What it may take in any case, so that prompts come through."""
REMEMBERED = 9
"""Steps of a kind that are looked back upon: enough that a few disturbed ones don't count."""
FRESH = 16
"""Steps with prompts after which one without is measured again: a machine may be slower now, and contexts longer."""

_Kind = tuple[int, int]
"""Streams of a step, and the groups that there were."""


class Pace:
    """A running stream gets its next token when a step is over, so a prompt's chunk widens its gap by what it adds.

    The rule: a step may take `STRETCH` times what it takes without prompts. What that is, ``d``, is the median of the
    last steps with as many streams and no prompt; where there is none, or it is old, the next step goes without. Where
    ``d`` has grown since the streams were undisturbed, the limit hasn't, down to `LEAST_STRETCH` times ``d``. What
    a token of a prompt costs, ``p``, is what the last steps with prompts took beyond their ``d``, by token; it grows
    with what the token looks back upon, so positions are kept apart, by doubling. So ``(limit - d) / p`` tokens may go
    along, at least one, and at most twice what was allowed last, so that no wrong estimate hurts much before it
    is put right. The aim is a gap under 4 undisturbed ones at the 99th percentile; the room up to 4 is for noise. A
    prompt that costs up to 3 steps of the streams is through in two.

    Knows no clock: `observe` is told what steps took.
    """

    def __init__(self) -> None:
        self._plain: dict[_Kind, deque[float]] = {}
        self._calm: dict[_Kind, deque[float]] = {}
        self._extra: dict[int, deque[tuple[float, int]]] = {}
        self._allowed: dict[_Kind, int] = {}
        self._since = 0

    def observe(self, streams: int, prompt: int, position: int, seconds: float, groups: int = 1) -> None:
        """A step with so many streams and tokens of prompts, the furthest chunk at ``position``, took so long.

        It was one of ``groups`` that were under way, and the time is that from the answer before.
        """
        kind = (streams, groups)
        if prompt == 0:
            for kept in (self._plain,) if self._since else (self._plain, self._calm):
                kept.setdefault(kind, deque(maxlen=REMEMBERED)).append(seconds)
            self._since = 0
        else:
            extra = max(0.0, seconds - self._undisturbed(kind))
            self._extra.setdefault(_doublings(position), deque(maxlen=REMEMBERED)).append((extra, prompt))
            self._since += 1

    def prompt_tokens(self, streams: int, most: int, position: int, groups: int = 1) -> int:
        """How many of the prompts that wait may go along with so many streams, one of ``groups``, up to ``most``.

        All of these where there is no stream. The first prompt to go is at ``position``.
        """
        if streams == 0:
            return most
        kind = (streams, groups)
        if kind not in self._plain or self._since >= FRESH:
            return 0
        worth, cost = self._worth(kind), self._cost(_doublings(position))
        affordable = most if cost == 0 else int(min(most, worth / cost))
        self._allowed[kind] = max(1, min(affordable, 2 * self._allowed.get(kind, most)))
        return min(most, self._allowed[kind])

    def _undisturbed(self, kind: _Kind) -> float:
        seen = self._plain.get(kind)
        return median(seen) if seen else 0.0

    def _worth(self, kind: _Kind) -> float:
        """Seconds that prompts may add."""
        now = self._undisturbed(kind)
        calm = min(now, median(self._calm.get(kind, [now])))
        return max(STRETCH * calm, LEAST_STRETCH * now) - now

    def _cost(self, doublings: int) -> float:
        """Seconds a token: the higher one of the typical step's and of all of them together."""
        if not self._extra:
            return 0.0
        seen = self._extra[min(self._extra, key=lambda other: abs(other - doublings))]
        together = sum(extra for extra, _ in seen) / sum(tokens for _, tokens in seen)
        return max(together, median(extra / tokens for extra, tokens in seen))


def _doublings(position: int) -> int:
    """Of 256, where attention begins to count."""
    return (position // 256).bit_length()
