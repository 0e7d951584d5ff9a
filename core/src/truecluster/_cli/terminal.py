"""Progress for a person at a terminal: lines, and bars that go away; only lines where nobody looks."""

from __future__ import annotations

import atexit
import sys
import threading
from typing import TYPE_CHECKING

from .options import say

if TYPE_CHECKING:
    from rich.progress import TaskID


class Terminal:
    """A `truecluster._cluster.report.Report` on standard error. The bars start with the first progress."""

    def __init__(self) -> None:
        self._bars: _Bars | None = None
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        with self._lock:
            say(line) if self._bars is None else self._bars.say(line)

    def progress(self, task: str, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        with self._lock:
            self._bars = self._bars or _Bars()
            if self._bars.update(task, done, total):
                self._bars = None


class _Bars:
    """Bars of tasks under way, drawn until all of them are done."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._drawn = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._drawn.start()
        atexit.register(self._drawn.stop)  # or the cursor stays hidden when an error ends us

    def say(self, line: str) -> None:
        self._drawn.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def update(self, task: str, done: int, total: int) -> bool:
        """Says whether everything is done, and then draws no more."""
        if task not in self._tasks:
            self._tasks[task] = self._drawn.add_task(task, total=total)
        self._drawn.update(self._tasks[task], completed=done)
        if self._drawn.finished:
            self._drawn.stop()
        return self._drawn.finished
