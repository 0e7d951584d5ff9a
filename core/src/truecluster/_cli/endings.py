"""Ctrl-C and SIGTERM, held back until they can end a command in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Endings:
    """Inside the block the first Ctrl-C or SIGTERM, and only that, is noted instead of raised; its end raises it.

    Raised wherever it happens to come, an interrupt tears things apart: an import turns it into another error, a half
    made event loop complains, a block that had just been entered is never left. What a command does once it is told to
    end takes a bounded time, so that later signals are ignored until the process is gone.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._call: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    @contextmanager
    def telling(self, call: Callable[[], object]) -> Generator[None, None, None]:
        """Inside the block ``call`` is made, once, in the signal's handler when one comes, or now if one came."""
        self._call = call
        if self.received is not None:
            self._tell()
        try:
            yield
        finally:
            self._call = None

    def __enter__(self) -> Endings:
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def check(self) -> None:
        """Raises what the signal that came stands for: `KeyboardInterrupt`, or `SystemExit` with a shell's 143."""
        if self.received is not None:
            raise SystemExit(128 + signal.SIGTERM) if self.received == signal.SIGTERM else KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.received is None:
            for number, handler in self._before.items():
                signal.signal(number, handler)
        elif kind is None:
            self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        if self.received is None:
            self.received = number
            self._tell()

    def _tell(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()
