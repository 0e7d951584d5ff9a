"""Trying to reach a coordinator again and again, ever more slowly, without filling a log."""

from __future__ import annotations

import logging
import time

import anyio

from truecluster.api import TrueClusterError

LOG = logging.getLogger(__name__)
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
SAY_EVERY = 60.0
"""Seconds between two lines about the same trouble."""


class Attempts:
    """Failures in a row. ``timeout`` is how long they may go on, in seconds; 0 allows one."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._pause = FIRST_PAUSE
        self._since: float | None = None
        self._said = -SAY_EVERY

    async def failed(self, error: TrueClusterError) -> None:
        """Pause before the next attempt, longer each time. Raises ``error`` when the time is up."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        left = self._since + self._timeout - now
        if left <= 0:
            raise error
        if now - self._said >= SAY_EVERY:
            self._said = now
            LOG.warning("%s; trying again for %.0f s", error, left)
        await anyio.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
