"""The processor: tensors stay where they are."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from truecluster.api import DeviceBackend, DeviceContext, DeviceInfo, DType

from .host import checked_threads, computing, find, memory


class CpuContext(DeviceContext):
    """Uploads and downloads are the tensors themselves."""

    id = kind = "cpu"

    def __init__(self, threads: int | None) -> None:
        self._threads = threads

    def memory(self) -> tuple[int | None, int | None]:
        return memory()

    def scope(self) -> AbstractContextManager[None]:
        return computing(self, self._threads)

    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def download(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def synchronize(self) -> None:
        """Nothing is queued on a processor."""

    def native(self, dtype: DType) -> bool:
        """Only fp32: without AMX or AVX-512 BF16 torch's half-precision products run hundreds of times slower.

        Which processors have them and which torch uses them for can't be asked reliably, and fp32 is never wrong.
        """
        return dtype is DType.FP32

    def residual(self, compute: DType) -> DType:
        return DType.FP32


class CpuBackend(DeviceBackend):
    """One device, ``cpu``."""

    def detect(self) -> Sequence[DeviceInfo]:
        total, free = memory()
        name = platform.processor() or platform.machine()
        return [DeviceInfo(id="cpu", kind="cpu", name=name, total=total, free=free)]

    def open(self, id: str, threads: int | None = None) -> CpuContext:
        find(id, "cpu", self.detect())
        return CpuContext(checked_threads(threads))
