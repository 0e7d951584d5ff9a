"""Child processes whose words are read while they work: `tc`, and what it is compared with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from queue import Empty, Queue
from types import TracebackType
from typing import TypeVar

WAIT_SECONDS = 600.0
STOP_SECONDS = 30.0
Self = TypeVar("Self", bound="Child")


def end_children_when_told() -> None:
    """Lets Ctrl-C and SIGTERM end this process without a trace, by way of the blocks that end children."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: sys.exit(128 + number))


class Child:
    """A process; leaving the block interrupts it and waits. ``name`` is for errors."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._words: Queue[str | None] = Queue()
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._words.put(line.rstrip())
        self._words.put(None)

    def wait_for(self, part: str, timeout: float = WAIT_SECONDS) -> str:
        """The next line that has ``part`` in it; without one in time (seconds) the benchmark ends."""
        end = time.monotonic() + timeout
        while (line := self._next(end)) is not None:
            self._said.append(line)
            if part in line:
                return line
        raise SystemExit(f"{self._name} never said {part!r}, but:\n" + "\n".join(self._said[-20:]))

    def _next(self, end: float) -> str | None:
        try:
            return self._words.get(timeout=max(0.0, end - time.monotonic()))
        except Empty:
            return None

    def running(self) -> bool:
        return self._process.poll() is None

    def finish(self) -> int:
        """Wait until it ends by itself; its exit status."""
        return self._process.wait(WAIT_SECONDS)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.running():
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()


class Tc(Child):
    """``tc ARGUMENTS``."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        super().__init__(f"tc {arguments[0]}", [sys.executable, "-m", "truecluster", *arguments], environment)
