"""What a plugin that failed leaves behind."""

from __future__ import annotations

import attrs

from truecluster.api import TrueClusterError


@attrs.frozen(eq=False)
class PluginFailure:
    """A distribution that could not be loaded, or one hook or kernel of it that failed, why, and at which file:line."""

    distribution: str
    version: str
    cause: BaseException
    place: str | None = None

    def __str__(self) -> str:
        where = f"; at {self.place}" if self.place else ""
        return f"{self.distribution} {self.version} ({self.reason}{where})"

    @property
    def reason(self) -> str:
        """The cause and what to do about it, on one line."""
        if isinstance(self.cause, TrueClusterError):
            return str(self.cause)
        return f"{type(self.cause).__name__}: {self.cause}; {self._remedy()}"

    def _remedy(self) -> str:
        leave_out = f"or leave it out with --without-plugins {self.distribution}"
        if self.place is None and isinstance(self.cause, ModuleNotFoundError):
            return f"mend its entry point, {leave_out}"
        return remedy(self.cause) or f"mend it, {leave_out}"


def remedy(error: BaseException) -> str | None:
    """What to do about an import that failed, where it is known."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    if error.name.partition(".")[0] == "truecluster":
        return "import what a plugin may use from truecluster.api"
    return f"install what has {error.name}, and name it among the plugin's dependencies"
