"""What a suite says when its subclass left something out."""

from __future__ import annotations


def missing(suite: object, name: str, what: str) -> NotImplementedError:
    """To raise from a fixture or method that the subclass must give."""
    return NotImplementedError(f"{type(suite).__name__} must give {name}: {what}")
