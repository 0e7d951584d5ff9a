"""Events on their way to the plugins that observe: each on a thread of its own, so that none holds anybody up."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

import attrs

from truecluster.api import Event, WeightsProgress

LOG = logging.getLogger(__name__)
ROOM = 1000
"""Events that may wait for an observer."""
PROGRESS_SECONDS = 0.2
"""Between two events of one node's progress, but for the last."""


@attrs.frozen(eq=False)
class Observer:
    """A ``truecluster_event`` hook and the distribution that has it."""

    call: Callable[[Event], object]
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


class Events:
    """Tells observers what happens. `emit` is safe from any thread, returns at once, and never raises."""

    def __init__(self, observers: Sequence[Observer] = (), room: int = ROOM) -> None:
        self._listeners = [_Listener(observer, room) for observer in observers]
        self._told: dict[tuple[int, str], float] = {}

    def emit(self, event: Event) -> None:
        """Tell every observer."""
        if self._listeners and not (isinstance(event, WeightsProgress) and self._too_soon(event)):
            for listener in self._listeners:
                listener.tell(event)

    def close(self, timeout: float = 1.0) -> None:
        """Give the observers so many seconds, all together, for what they haven't heard yet, and end their threads."""
        deadline = time.monotonic() + timeout
        for listener in self._listeners:
            listener.close()
        for listener in self._listeners:
            listener.wait(deadline)

    def _too_soon(self, event: WeightsProgress) -> bool:
        key, now = (event.run, event.node), time.monotonic()
        if event.done >= event.total:
            self._told.pop(key, None)
            return False
        if now < self._told.get(key, 0.0) + PROGRESS_SECONDS:
            return True
        self._told[key] = now
        return False


SILENT = Events()
"""Tells nobody."""


class _Listener:
    """One observer, its thread, and the events that wait for it."""

    def __init__(self, observer: Observer, room: int) -> None:
        self._observer = observer
        self._room = room
        self._waiting: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._warned: set[str] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"observer {observer}", daemon=True)
        self._thread.start()

    def tell(self, event: Event) -> None:
        if self._closed:
            return
        if self._waiting.qsize() < self._room:
            self._waiting.put(event)
        else:
            self._warn("is too slow", f"{self._room} events wait for it, and later ones are left out")

    def close(self) -> None:
        self._closed = True
        self._waiting.put(None)

    def wait(self, deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._warn("didn't end", f"it is left alone with {self._waiting.qsize() - 1} events that it hasn't heard")
            self._forget()

    def _forget(self) -> None:
        """Let the thread end as soon as the observer returns."""
        while not self._waiting.empty():
            self._waiting.get()
        self._waiting.put(None)

    def _work(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._observer.call(event)
            except (Exception, SystemExit) as error:
                self._warn("failed", f"at {type(event).__name__}: {type(error).__name__}: {error}")

    def _warn(self, what: str, why: str) -> None:
        """Once for each ``what``."""
        if what not in self._warned:
            self._warned.add(what)
            LOG.warning("the event observer of %s %s: %s", self._observer, what, why)
