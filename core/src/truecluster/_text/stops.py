"""Stop strings in a growing text."""

from __future__ import annotations

from collections.abc import Sequence


def held(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop`` without being all of it."""
    longest = min(len(stop) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)


class StopStrings:
    """Gives out text that can't be part of a stop string any more.

    The stop string that is complete first ends the text, of several the longest, so that the answer doesn't depend
    on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._pending = ""

    def push(self, text: str) -> tuple[str, bool]:
        """The text to give out, and whether a stop string ended it; nothing may be pushed after that."""
        self._pending += text
        found = [(at + len(stop), at) for stop in self._stops if (at := self._pending.find(stop)) >= 0]
        if found:
            return self._pending[: min(found)[1]], True
        sure = len(self._pending) - max((held(self._pending, stop) for stop in self._stops), default=0)
        given, self._pending = self._pending[:sure], self._pending[sure:]
        return given, False

    def finish(self) -> str:
        """What was held back, when nothing follows."""
        given, self._pending = self._pending, ""
        return given
