"""What a plugin that failed leaves behind."""

from __future__ import annotations

import traceback

import attrs


@attrs.frozen(eq=False)
class PluginFailure:
    """A distribution that could not be loaded, or one hook or kernel of it that failed, and why."""

    distribution: str
    version: str
    cause: BaseException

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.reason})"

    @property
    def reason(self) -> str:
        """The cause on one line."""
        return f"{type(self.cause).__name__}: {self.cause}"

    @property
    def place(self) -> str | None:
        """The file and line that raised, where there is one."""
        frames = traceback.extract_tb(self.cause.__traceback__)
        return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
