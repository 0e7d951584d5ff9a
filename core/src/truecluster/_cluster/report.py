"""What a coordinator tells its user while it works."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    """Called from any thread; must not block for long."""

    def say(self, line: str) -> None:
        """One line."""

    def progress(self, task: str, done: int, total: int) -> None:
        """``task`` has come so far, in bytes; the last call has ``done == total``."""
