"""What is done with plugins, told as it is done."""

from __future__ import annotations

import os
import sys
import time

import attrs


@attrs.frozen
class Trace:
    """Prints a line on standard error for every event, if that is ``wanted``."""

    wanted: bool

    def __call__(self, line: str, since: float | None = None) -> None:
        """``since`` is a `clock` before what the line tells of."""
        if self.wanted:
            took = "" if since is None else f" ({(clock() - since) * 1000:.1f} ms)"
            print(f"plugins[{os.getpid()}]: {line}{took}", file=sys.stderr, flush=True)


def clock() -> float:
    """Seconds, to measure how long something takes."""
    return time.perf_counter()
