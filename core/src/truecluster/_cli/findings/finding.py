"""One thing that was looked at."""

from __future__ import annotations

import attrs

from truecluster._registry import Offer

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


def without(distribution: str) -> str:
    """The remedy for a plugin that is broken."""
    return f"upgrade or uninstall it, or leave it out with --without-plugins {distribution}"


def broken(offer: Offer, error: BaseException) -> Finding:
    """An offer whose code failed while it was looked at."""
    text = f"{offer} failed: {type(error).__name__}: {error}"
    return Finding(offer.spec.name, text, FAIL, without(offer.distribution))


def gigabytes(size: int | None) -> str:
    """Bytes for people."""
    return "unknown" if size is None else f"{size / 1e9:.1f} GB"


def split_remedy(text: str) -> tuple[str, str]:
    """What is wrong and what to do, of a plugin's message that has both, a semicolon between them."""
    wrong, _, remedy = text.partition("; ")
    return wrong, remedy or "see above"
