"""How fast counters grow, over the last seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping

import anyio

WINDOW = 10.0
"""Seconds that a rate is of, at most."""
EVERY = 1.0
"""Seconds between two looks."""


class Meter:
    """Looks at what ``read`` gives, counters by key, for as long as `watch` runs. A key that is new begins anew."""

    def __init__(self, read: Callable[[], Mapping[Hashable, float]]) -> None:
        self._read = read
        self._seen: deque[tuple[float, Mapping[Hashable, float]]] = deque()

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            self.look(time.monotonic())
            await anyio.sleep(EVERY)

    def look(self, now: float) -> None:
        """Remember the counters as they are ``now``, in seconds."""
        self._seen.append((now, self._read()))
        while self._seen[-1][0] - self._seen[0][0] > WINDOW:
            self._seen.popleft()

    def rate(self, key: Hashable) -> float | None:
        """Growth a second; ``None`` while that can't be told."""
        known = [(at, counters[key]) for at, counters in self._seen if key in counters]
        if len(known) < 2 or known[-1][0] <= known[0][0]:
            return None
        (began, low), (ended, high) = known[0], known[-1]
        return (high - low) / (ended - began)
