"""One thing that was looked at."""

from __future__ import annotations

import attrs

OK, WARN, FAIL = "ok", "warn", "fail"


@attrs.frozen
class Finding:
    """``text`` says what is there; ``remedy`` what to do, where ``state`` isn't `OK`.

    `WARN`: something can't be used, or not well; `FAIL`: TrueCluster won't work, or a plugin is broken.
    """

    name: str
    text: str
    state: str = OK
    remedy: str | None = None


def gigabytes(size: int | None) -> str:
    """Bytes for people."""
    return "unknown" if size is None else f"{size / 1e9:.1f} GB"


def split_remedy(text: str) -> tuple[str, str]:
    """What is wrong and what to do, of a plugin's message that has both, a semicolon between them."""
    wrong, _, remedy = text.partition("; ")
    return wrong, remedy or "see above"
