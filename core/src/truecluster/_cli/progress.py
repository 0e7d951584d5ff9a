"""Progress on standard error: bars that go away for who sits at a terminal, a line now and then for who doesn't."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from .options import say

if TYPE_CHECKING:
    from rich.progress import Progress as Drawn
    from rich.progress import TaskID

    from truecluster._cluster.report import Advance

LINE_SECONDS = 5.0
"""A task that nobody sees as a bar says how far it is this often."""


class Progress:
    """A `truecluster._cluster.report.Report` on standard error."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bars: _Bars | None = None
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """A line; above the bars, while there are any."""
        with self._lock:
            say(line) if self._bars is None else self._bars.say(line)

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Advance]:
        """See `Report.task`."""
        if sys.stderr.isatty() or self._bars is not None:
            with self._bar(name, total) as advance:
                yield advance
        else:
            yield _Lines(name, total, self._clock, self._clock()).advance

    @contextmanager
    def _bar(self, name: str, total: int) -> Iterator[Advance]:
        with self._lock:
            bars = self._bars = self._bars or _Bars()
            bar = bars.add(name, total)
        try:
            yield bar.advance
        finally:
            with self._lock:
                if bars.remove(bar):
                    self._bars = None


class _Bars:
    """Bars of the tasks under way. Imports `rich` with the first one."""

    def __init__(self) -> None:
        self._drawn = _draw()
        self._bars: set[_Bar] = set()
        self._drawn.start()
        atexit.register(self._drawn.stop)  # or the cursor stays hidden when an error ends us

    def say(self, line: str) -> None:
        self._drawn.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def add(self, name: str, total: int) -> _Bar:
        bar = _Bar(self._drawn, self._drawn.add_task(name, total=total))
        self._bars.add(bar)
        return bar

    def remove(self, bar: _Bar) -> bool:
        """Says whether it was the last one; then nothing is drawn any more."""
        self._bars.remove(bar)
        self._drawn.remove_task(bar.id)
        if not self._bars:
            self._drawn.stop()
            atexit.unregister(self._drawn.stop)
        return not self._bars


@attrs.frozen(eq=False)
class _Bar:
    drawn: Drawn
    id: TaskID

    def advance(self, done: int) -> None:
        self.drawn.update(self.id, completed=done)


def _draw() -> Drawn:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


@attrs.define(eq=False)
class _Lines:
    """One task in lines: none at all where it is done before the first is due."""

    name: str
    total: int
    clock: Callable[[], float]
    started: float
    said: float = attrs.field(init=False)
    first: int | None = None

    def __attrs_post_init__(self) -> None:
        self.said = self.started

    def advance(self, done: int) -> None:
        now = self.clock()
        self.first = done if self.first is None else self.first
        if now - self.said >= LINE_SECONDS:
            self.said = now
            say(f"{self.name}: {self._how_far(done, (done - self.first) / (now - self.started))}")

    def _how_far(self, done: int, rate: float) -> str:
        left = f"{(self.total - done) / rate:.0f} s left" if rate > 0 else "stalled"
        return f"{done / 1e6:.1f} of {self.total / 1e6:.1f} MB, {rate / 1e6:.1f} MB/s, {left}"
