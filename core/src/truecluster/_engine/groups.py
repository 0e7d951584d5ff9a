"""Into how many groups running streams are split, each a step of its own, by what was measured."""

from __future__ import annotations

from collections import deque
from statistics import median

import attrs

SAMPLES = 8
"""Gaps that are compared on either side."""
SETTLED = 2
"""Rounds of all groups after a change of any kind, from which on gaps count."""
BETTER = 0.95
"""A gap has to become shorter by this factor, so that noise doesn't decide."""
FIRST, RAREST = 128, 8192
"""Gaps between two trials: at first, and at most. Each one that changes nothing doubles it."""
LONGEST = 96
"""Answers after which a trial that others disturb is given up."""


class Groups:
    """With one group, a stage rests while the others have the step. With ``g``, up to ``g`` stages work at once.

    Whether that pays depends: a stage of ``n`` streams takes ``a + b n`` seconds, ``a`` being mostly the weights, so
    with S stages on machines of their own a stream has its next token after ``S (a + b n)`` in one group and after
    ``S a + b n`` in S groups. Where stages share a machine, it is ``S (g a + b n)`` in any case, and one group is best.

    So it is tried out. What counts is the gap between two tokens of a stream, the time in which every group is
    answered once, between steps without prompts. About every ``FIRST`` gaps, ever more rarely where it changed
    nothing, one group more or less is tried for `SAMPLES` gaps, then the old number again; it is changed where the
    median was shorter than before and after. What is best depends on how many streams there are, so doublings of
    their number are apart. A trial takes about seven gaps, which are at most twice as long as they were: 5 % of the
    first 128, then less.

    Knows no clock: `observe` is told what steps took. ``most`` is the number of stages.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._choices: dict[int, _Choice] = {}
        self._kind: tuple[int, int] | None = None
        self._intervals: deque[float] = deque(maxlen=SETTLED * most)

    def count(self, streams: int) -> int:
        """Groups for so many streams, from 1 to as many as there are streams and stages."""
        if self._most == 1 or streams < 2:
            return 1
        return min(self._choice(streams).now, streams)

    def observe(self, streams: int, groups: int, prompt: bool, seconds: float) -> None:
        """A step was answered so long after the one before, with tokens of a prompt or without.

        When it was sent there were so many streams, in so many groups.
        """
        if self._most == 1 or streams < 2:
            return
        kind = None if prompt else (streams, groups)
        if kind is None or kind != self._kind:
            self._kind = kind
            self._intervals.clear()
        else:
            self._intervals.append(seconds)
        settled = len(self._intervals) >= SETTLED * groups
        gap = sum(list(self._intervals)[-groups:]) if settled else None
        self._choice(streams).observe(streams, groups, gap)

    def _choice(self, streams: int) -> _Choice:
        """The one for about so many streams, at first what was best for the number nearest to it."""
        scale = streams.bit_length()
        if scale not in self._choices:
            nearest = min(self._choices, key=lambda other: abs(other - scale), default=None)
            best = 1 if nearest is None else self._choices[nearest].best
            self._choices[scale] = _Choice(self._most, best)
        return self._choices[scale]


@attrs.define
class _Choice:
    """The ``best`` number so far, and the trial under way: ``rival`` is tried, then, being ``ahead``, checked.

    ``streams`` is how many there are while it is under way; what is seen at other times doesn't count.
    """

    most: int
    best: int
    rival: int | None = None
    ahead: float | None = None
    streams: int = 0
    upward: bool = True
    pause: int = FIRST
    left: int = FIRST
    spent: int = 0
    before: dict[int, deque[float]] = attrs.field(factory=dict)
    gaps: list[float] = attrs.field(factory=list)

    @property
    def now(self) -> int:
        """How many groups are to be used."""
        return self.best if self.rival is None or self.ahead is not None else self.rival

    def observe(self, streams: int, groups: int, gap: float | None) -> None:
        """A gap, or ``None`` where nothing is known of it."""
        if gap is not None and groups != self.now:
            gap = None
        if self.rival is None:
            if gap is not None:
                self._rest(streams, gap)
        else:
            self._try(gap if streams == self.streams else None)

    def _rest(self, streams: int, gap: float) -> None:
        self.left -= 1
        seen = self.before.setdefault(streams, deque(maxlen=SAMPLES))
        seen.append(gap)
        if self.left <= 0 and len(seen) == SAMPLES:
            self.rival = self._next(min(self.most, streams))
            self.streams, self.ahead, self.spent, self.gaps = streams, None, 0, []

    def _next(self, most: int) -> int | None:
        up, down = self.best + 1, self.best - 1
        return next((g for g in ((up, down) if self.upward else (down, up)) if 1 <= g <= most), None)

    def _try(self, gap: float | None) -> None:
        self.spent += 1
        if gap is not None:
            self.gaps.append(gap)
        if len(self.gaps) < SAMPLES:
            if self.spent >= LONGEST:
                self._end(self.pause)
            return
        found, self.gaps = median(self.gaps), []
        if self.ahead is not None:
            self._decide(self.ahead < BETTER * found)
        elif found < BETTER * median(self.before[self.streams]):
            self.ahead, self.spent = found, 0
        else:
            self._decide(False)

    def _decide(self, better: bool) -> None:
        if better:
            assert self.rival is not None
            self.best = self.rival
            self.before.clear()
            self._end(FIRST)
        else:
            self.upward = not self.upward
            self._end(min(RAREST, 2 * self.pause))

    def _end(self, pause: int) -> None:
        self.rival = None
        self.pause = self.left = pause
