"""What a coordinator tells its user while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import attrs

Advance = Callable[[int], None]
"""Takes how many bytes of a task are done so far."""


class Report(Protocol):
    """Called from any thread; must not block for long."""

    def say(self, line: str) -> None:
        """One line."""

    def task(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """A task of ``total`` bytes, shown as long as the block lasts, however it ends."""


@attrs.define(eq=False)
class _Task:
    name: str
    total: int
    done: int = 0


class Overheard:
    """A `Report` that passes on what it is told and knows the tasks under way."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tasks: dict[_Task, None] = {}

    def say(self, line: str) -> None:
        """See `Report.say`."""
        self._report.say(line)

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Advance]:
        """See `Report.task`."""
        task = _Task(name, total)

        def both(done: int) -> None:
            task.done = done
            advance(done)

        self._tasks[task] = None
        try:
            with self._report.task(name, total) as advance:
                yield both
        finally:
            del self._tasks[task]

    def view(self) -> list[dict[str, Any]]:
        """The tasks under way as plain data, in bytes, in the order in which they began. From any thread."""
        return [{"task": task.name, "done": task.done, "total": task.total} for task in list(self._tasks)]
