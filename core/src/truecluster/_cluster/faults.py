"""What went wrong lately, for whoever looks on: bounded, and without what is only this machine's business."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import attrs

KEPT = 20
LONGEST = 500
"""Characters of a message."""
_FOLDERS = re.compile(r"(?<![\w.:/\\])(?:/|~/|[A-Za-z]:\\)(?:[^\s'\",;:()/\\]+[/\\])+")


@attrs.define
class _Noted:
    at: float
    count: int = 1


class Faults:
    """The latest ones; the same words again are counted instead of kept twice. ``clock`` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, _Noted] = OrderedDict()

    def note(self, message: str) -> None:
        """It went wrong now."""
        text, now = without_folders(message)[:LONGEST], self._clock()
        before = self._kept.pop(text, None)
        self._kept[text] = _Noted(now, before.count + 1 if before else 1)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def view(self) -> list[dict[str, Any]]:
        """As plain data, the latest first."""
        now = self._clock()
        return [
            {"message": text, "count": noted.count, "seconds_ago": round(now - noted.at, 1)}
            for text, noted in reversed(self._kept.items())
        ]


def without_folders(text: str) -> str:
    """Paths in a text down to their last name."""
    return _FOLDERS.sub("…/", text)
