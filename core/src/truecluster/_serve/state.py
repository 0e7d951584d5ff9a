"""What the API needs to know about the cluster behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from truecluster._engine.tally import Tally
from truecluster._text import Engine, TextModel


@attrs.frozen(kw_only=True)
class Readiness:
    """Whether there is anything that could ever answer, and whether it can now; the nodes that takes and there are.

    ``stalled_seconds`` is for how long no step was answered, ``None`` where there is nothing to do: with more than a
    step may take, nothing is ready.
    """

    alive: bool
    ready: bool
    required: int
    connected: int
    stalled_seconds: float | None = None


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

    @property
    def leaving(self) -> bool:
        """Whether the server is about to end, and requests fail for no other reason."""
        ...

    def ready(self) -> Readiness: ...

    def cluster(self) -> dict[str, Any]:
        """What there is, does and did, as plain data: see docs/cluster.md."""
        ...

    def tally(self) -> Tally:
        """What the engine has done."""
        ...
