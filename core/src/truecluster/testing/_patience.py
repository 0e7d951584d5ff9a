"""Calls that are given a limited time, and what a process holds before and after them."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from .rules import require

T = TypeVar("T")


class Background(Generic[T]):
    """A call in a thread of its own; ``what`` it is called in a message."""

    def __init__(self, what: str, call: Callable[[], T], limit_s: float) -> None:
        self._what = what
        self._call = call
        self._limit_s = limit_s
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> T:
        """What the call returned or raised; it must have by now, or soon."""
        self._thread.join(self._limit_s)
        require(not self._thread.is_alive(), f"{self._what} ends", f"it still waits after {self._limit_s:g} s")
        if self._error is not None:
            raise self._error
        return self._result[0]

    def blocked(self, seconds: float) -> bool:
        """Whether it still waits after a moment."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error


@attrs.frozen
class Held:
    """What this process holds open: file descriptors and threads."""

    descriptors: int
    threads: int

    def __str__(self) -> str:
        return f"{self.descriptors} descriptors, {self.threads} threads"

    def within(self, other: Held) -> bool:
        """Whether it is no more than ``other``."""
        return self.descriptors <= other.descriptors and self.threads <= other.threads


def held() -> Held:
    """Counted now, without what only waits to be collected."""
    gc.collect()
    return Held(len(os.listdir("/dev/fd")), threading.active_count())


def held_at_last(before: Held, limit_s: float) -> Held:
    """Counted when it is down to ``before``, or after ``limit_s`` seconds: what ends may take a moment to be gone."""
    end = time.monotonic() + limit_s
    while not (now := held()).within(before) and time.monotonic() < end:
        time.sleep(0.01)
    return now
