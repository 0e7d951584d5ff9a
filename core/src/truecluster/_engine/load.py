"""How much an engine has to do at the moment."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Load:
    """Requests that wait and that are served; pages that these hold, and how many there are.

    ``in_flight`` are steps that aren't answered yet, and ``stalled_s`` the seconds since the last one was answered or
    the first was sent, ``None`` where there is nothing to do. Without a run there are no pages.
    """

    waiting: int
    running: int = 0
    pages_held: int = 0
    pages: int = 0
    in_flight: int = 0
    stalled_s: float | None = None
