"""How long a peer has said nothing, and how long that is bearable: alive and making progress are two things."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import attrs

HEARTBEAT = 2.0
"""Seconds between two PINGs of a coordinator."""
SILENCE = 10.0
"""Seconds after which a silent node that has nothing to do is lost."""
LOOK = 0.5


@attrs.define
class Silence:
    """``patience`` says how many seconds of silence are bearable now: more while the peer computes or loads.

    Only time in which this side listens counts: when this process was starved or suspended, its peer was not silent.
    """

    patience: Callable[[], float]
    seconds: float = 0.0
    _bearable: float = 0.0

    def heard(self) -> None:
        """The peer has said something."""
        self.seconds = 0.0

    async def too_long(self) -> float:
        """Return once it is unbearable: the seconds that it has lasted."""
        while True:
            before = time.monotonic()
            await anyio.sleep(LOOK)
            if self.passed(time.monotonic() - before):
                return self.seconds

    def passed(self, elapsed: float) -> bool:
        """``elapsed`` seconds went by; says whether the silence is unbearable. Patience that ends begins anew."""
        bearable = self.patience()
        if bearable < self._bearable:
            self.seconds = 0.0
        self._bearable = bearable
        self.seconds += min(elapsed, 2 * LOOK)
        return self.seconds > bearable
