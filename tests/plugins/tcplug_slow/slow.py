"""The processor, which rests nine times as long as it has worked whenever somebody waits for it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from truecluster.api import DeviceBackend, DeviceInfo, NodeError
from truecluster.testing._host import HostDevice

SHARE = 9
LONGEST = 0.1
"""Seconds; what came before may have been idleness."""


class SlowContext(HostDevice):
    id, kind = "cpu:1", "slow"

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def synchronize(self) -> None:
        time.sleep(min(LONGEST, SHARE * (time.perf_counter() - self._since)))
        self._since = time.perf_counter()


class SlowBackend(DeviceBackend):
    """One device, ``slow``."""

    def detect(self) -> Sequence[DeviceInfo]:
        return [DeviceInfo(id="cpu:1", kind="slow", name="a processor that dawdles")]

    def open(self, id: str, threads: int | None = None) -> SlowContext:
        if id not in ("slow", "cpu:1"):
            raise NodeError(f"device {id!r} doesn't exist; there is cpu:1")
        return SlowContext()
