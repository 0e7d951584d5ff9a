"""What the API needs to know about the cluster behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from truecluster._text import Engine, TextModel


@attrs.frozen(kw_only=True)
class Readiness:
    """Whether there is anything that could ever answer, and whether it can now; the nodes that takes and there are."""

    alive: bool
    ready: bool
    required: int
    connected: int


class ServeState(Protocol):
    """``text`` and ``engine`` are used only while `ready` says so; all of it from the event loop, so it can't block."""

    @property
    def model_names(self) -> Sequence[str]:
        """The names that requests may give; answers carry the one that was given. Never a path."""
        ...

    @property
    def created(self) -> int:
        """Unix time in seconds at which the model was loaded."""
        ...

    @property
    def text(self) -> TextModel: ...

    @property
    def engine(self) -> Engine: ...

    def ready(self) -> Readiness: ...

    def cluster(self) -> dict[str, Any]:
        """The nodes that are there and the plan at work, as plain data."""
        ...
