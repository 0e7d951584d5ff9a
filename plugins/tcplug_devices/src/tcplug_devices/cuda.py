"""GPUs that torch reaches as ``cuda``: NVIDIA's, and AMD's with a ROCm build."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from truecluster.api import DeviceBackend, DeviceContext, DeviceInfo, DType

from .host import checked_threads, computing, find

STAGED_BYTES = 4 << 20
"""Up to here a copy goes through pinned memory, which torch keeps for the next one; above, pinning costs too much."""


class CudaContext(DeviceContext):
    """One stream of one GPU. What is computed outside `scope` isn't ordered with its copies."""

    kind = "cuda"

    def __init__(self, id: str, threads: int | None) -> None:
        self.id = id
        self._device = torch.device(id)
        self._threads = threads
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    def memory(self) -> tuple[int | None, int | None]:
        """Free counts what torch holds without using it."""
        free, total = torch.cuda.mem_get_info(self._device)
        unused = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        return total, free + unused

    @contextmanager
    def scope(self) -> Iterator[None]:
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream), computing(self, self._threads):
            yield

    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        """As the base; the host tensor may be overwritten when this returns."""
        with torch.cuda.stream(self._stream):
            if tensor.is_pinned() or tensor.nbytes > STAGED_BYTES:
                return self._finished(tensor.to(self._device, non_blocking=tensor.is_pinned()))
            return tensor.pin_memory().to(self._device, non_blocking=True)

    def download(self, tensor: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self._stream):
            if tensor.nbytes > STAGED_BYTES:
                return self._finished(tensor.cpu())
            staged = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            return self._finished(staged.copy_(tensor, non_blocking=True))

    def synchronize(self) -> None:
        self._stream.synchronize()

    def native(self, dtype: DType) -> bool:
        """fp16 from compute capability 7.0 on, bf16 from 8.0."""
        needed = {DType.FP32: (0, 0), DType.FP16: (7, 0), DType.BF16: (8, 0)}
        return dtype in needed and torch.cuda.get_device_capability(self._device) >= needed[dtype]

    def _finished(self, tensor: torch.Tensor) -> torch.Tensor:
        self._stream.record_event().synchronize()
        return tensor


class CudaBackend(DeviceBackend):
    """``cuda:0``, ``cuda:1``, …; ``cuda`` opens the first."""

    def detect(self) -> Sequence[DeviceInfo]:
        if not has_driver():
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a driver that is too old, and says "not available"
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [_info(index) for index in range(count)]

    def absent(self) -> str | None:
        if not has_driver() or self.detect():
            return None
        if torch.version.cuda is None and torch.version.hip is None:
            return (
                f"a GPU driver is installed, but torch {torch.__version__} was built without CUDA and ROCm; "
                "install a build of torch that has it"
            )
        return (
            f"a GPU driver is installed, but torch {torch.__version__} finds no GPU that it can use; "
            "upgrade the driver, and look whether CUDA_VISIBLE_DEVICES hides it"
        )

    def open(self, id: str, threads: int | None = None) -> CudaContext:
        return CudaContext(find(id, "cuda", self.detect()).id, checked_threads(threads))


def has_driver() -> bool:
    """Whether a GPU driver is installed, without asking torch, which takes its time to say no."""
    if os.path.exists("/dev/kfd"):  # AMD
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _info(index: int) -> DeviceInfo:
    properties = torch.cuda.get_device_properties(index)
    try:
        free: int | None = torch.cuda.mem_get_info(index)[0]
    except RuntimeError:  # another process holds it exclusively
        free = None
    return DeviceInfo(id=f"cuda:{index}", kind="cuda", name=properties.name, total=properties.total_memory, free=free)
