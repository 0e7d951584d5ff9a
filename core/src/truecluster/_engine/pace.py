"""How many tokens of prompts a step may carry beside running streams, by what steps were measured to take."""

from __future__ import annotations

from collections import deque
from statistics import median

STRETCH = 3.0
"""How many times longer than without prompts a step may take."""
REMEMBERED = 15
"""Steps of a kind that are looked back upon: enough that a few disturbed ones don't count."""


class Pace:
    """A running stream gets its next token when a step is over, so a prompt's chunk widens its gap by what it adds.

    The rule: a step may take `STRETCH` times what it takes without prompts. What that is, ``d``, is the median of the
    last steps with as many streams and no prompt; a number of streams that was never seen so goes once without. What
    a token of a prompt costs, ``p``, is the median of ``(seconds - d) / tokens`` over the last steps with prompts. So
    ``(STRETCH - 1) * d / p`` tokens may go along, at least one, and at most twice what was tried before, so that no
    wrong estimate hurts much before it is put right. The aim is a gap under 4 undisturbed ones at the 99th percentile;
    the room from 3 to 4 is for noise. A prompt that costs up to 4 steps of the streams is through in two.

    Knows no clock: `observe` is told what steps took.
    """

    def __init__(self) -> None:
        self._plain: dict[int, deque[float]] = {}
        self._costs: deque[float] = deque(maxlen=REMEMBERED)
        self._tried: deque[int] = deque(maxlen=REMEMBERED)

    def observe(self, streams: int, prompt: int, seconds: float) -> None:
        """A step with so many streams and tokens of prompts took so long."""
        if prompt == 0:
            self._plain.setdefault(streams, deque(maxlen=REMEMBERED)).append(seconds)
            return
        self._costs.append(max(0.0, seconds - self._undisturbed(streams)) / prompt)
        if streams:
            self._tried.append(prompt)

    def prompt_tokens(self, streams: int, most: int) -> int:
        """How many may go along with so many streams, up to ``most``; all of them where there is no stream."""
        if streams == 0:
            return most
        if streams not in self._plain:
            return 0
        worth, cost = (STRETCH - 1) * self._undisturbed(streams), median(self._costs or [0.0])
        affordable = int(min(most, worth / cost)) if cost else most
        return min(most, max(1, affordable), 2 * max(self._tried, default=most))

    def _undisturbed(self, streams: int) -> float:
        seen = self._plain.get(streams)
        return median(seen) if seen else 0.0
