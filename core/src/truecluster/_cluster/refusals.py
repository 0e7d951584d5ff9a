"""Saying that strangers were refused, without letting them fill a log."""

from __future__ import annotations

import logging
import time

from truecluster.api import HandshakeError

LOG = logging.getLogger(__name__)
SAY_EVERY = 1.0
"""Seconds between two lines."""


class Refusals:
    """One line in a while, with the number of those that had none."""

    def __init__(self) -> None:
        self._said = float("-inf")
        self._unsaid = 0

    def say(self, error: HandshakeError) -> None:
        """Log why a connection was refused."""
        now = time.monotonic()
        if now - self._said < SAY_EVERY:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more since the last line)" if self._unsaid else ""
        self._said, self._unsaid = now, 0
        LOG.warning("refused a connection: %s%s", error, more)
