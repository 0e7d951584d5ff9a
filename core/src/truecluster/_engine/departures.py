"""How often requests end, which is how often a place in the queue becomes free."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

REMEMBERED = 16
LONGEST = 60
"""Seconds that a client is asked to wait at most, also where nothing is known yet."""


class Departures:
    """From any thread. ``clock`` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: deque[float] = deque(maxlen=REMEMBERED)

    def note(self) -> None:
        """A request ended now."""
        self._times.append(self._clock())

    @property
    def interval(self) -> int:
        """Whole seconds from one to the next, from 1 to `LONGEST`."""
        times = list(self._times)
        if not times:
            return LONGEST
        return min(LONGEST, max(1, math.ceil((self._clock() - times[0]) / len(times))))
