"""What a suite says when its subclass left something out."""

from __future__ import annotations


class Missing(NotImplementedError):
    """What the author must give isn't given."""


def missing(suite: object, name: str, what: str) -> Missing:
    """To raise from a fixture or method that the subclass must give."""
    return Missing(f"{type(suite).__name__} must give {name}: {what}")
