"""What a plugin that failed leaves behind."""

from __future__ import annotations

import attrs


@attrs.frozen(eq=False)
class PluginFailure:
    """A distribution that could not be loaded, or one hook of it that failed, and why."""

    distribution: str
    version: str
    cause: BaseException

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({type(self.cause).__name__}: {self.cause})"
