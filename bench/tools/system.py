"""What the system says of a process."""

from __future__ import annotations

import re
import resource
import threading
from pathlib import Path
from types import TracebackType

from .figures import Skip

EVERY_S = 0.01
OWN = re.compile(r"^(?:RssAnon|RssShmem):\s+(\d+) kB$", re.MULTILINE)


def peak_resident(pid: int) -> int:
    """Highest resident size of a process so far, in bytes, mapped files included."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        raise Skip("needs /proc/PID/status, which only Linux has")
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def resident() -> int:
    """Resident size of this process now, in bytes."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        raise Skip("needs /proc/self/statm, which only Linux has")
    return resource.getpagesize() * int(statm.read_text().split()[1])


class PeakMemory:
    """Highest sum of a process's anonymous and shared memory, in bytes, while the block lasts.

    Pages of mapped files are not counted: the system takes them back when it needs them.
    """

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        if not self._status.exists():
            raise Skip("needs /proc/PID/status, which only Linux has")
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._done.wait(EVERY_S):
            try:
                found = OWN.findall(self._status.read_text())
            except OSError:  # the process has ended
                return
            self.peak = max(self.peak, 1024 * sum(map(int, found)))

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()
