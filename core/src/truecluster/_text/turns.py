"""Taking turns at work that keeps a processor busy, without keeping all threads from other work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from truecluster.api import Busy

WAITING = 12
"""Threads that may be at it or wait: a server has 40."""
_RETRY = 5


class Turns:
    """One thread at a time."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(WAITING)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for its turn. Raises `Busy` where too many wait already."""
        if not self._places.acquire(blocking=False):
            raise Busy("many schemas and grammars are being compiled", _RETRY)
        try:
            with self._lock:
                yield
        finally:
            self._places.release()
