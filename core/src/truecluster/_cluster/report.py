"""What a coordinator tells its user while it works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

Advance = Callable[[int], None]
"""Takes how many bytes of a task are done so far."""


class Report(Protocol):
    """Called from any thread; must not block for long."""

    def say(self, line: str) -> None:
        """One line."""

    def task(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """A task of ``total`` bytes, shown as long as the block lasts, however it ends."""
