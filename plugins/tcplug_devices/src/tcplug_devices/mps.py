"""The GPU of Apple silicon, which shares the machine's memory."""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from truecluster.api import DeviceBackend, DeviceContext, DeviceInfo, DType

from .host import checked_threads, computing, find
from .host import memory as host_memory

TURN = threading.RLock()
"""Of the one device that there is."""


class MpsContext(DeviceContext):
    """Copies wait until they are done: torch has no pinned memory and one stream here."""

    id = kind = "mps"

    def __init__(self, threads: int | None) -> None:
        self._threads = threads

    def memory(self) -> tuple[int | None, int | None]:
        return memory()

    def scope(self) -> AbstractContextManager[None]:
        return computing(self, self._threads)

    def turn(self) -> AbstractContextManager[object]:
        """torch's own queue of Metal commands crashes the process when two threads fill it at once."""
        return TURN

    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to("mps")

    def download(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu()

    def synchronize(self) -> None:
        torch.mps.synchronize()

    def native(self, dtype: DType) -> bool:
        """bf16 from macOS 14 on."""
        if dtype is DType.BF16:
            return int(platform.mac_ver()[0].partition(".")[0] or 0) >= 14
        return dtype in (DType.FP32, DType.FP16)


class MpsBackend(DeviceBackend):
    """One device, ``mps``."""

    def detect(self) -> Sequence[DeviceInfo]:
        if platform.system() != "Darwin" or not torch.backends.mps.is_available():
            return []
        total, free = memory()
        return [DeviceInfo(id="mps", kind="mps", name=platform.machine(), total=total, free=free)]

    def open(self, id: str, threads: int | None = None) -> MpsContext:
        find(id, "mps", self.detect())
        return MpsContext(checked_threads(threads))


def memory() -> tuple[int, int]:
    """What Metal recommends for this process, and what of it neither it nor the machine has used."""
    total = torch.mps.recommended_max_memory()
    return total, max(0, min(total - torch.mps.driver_allocated_memory(), host_memory()[1]))
