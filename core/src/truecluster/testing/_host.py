"""A processor and a format for suites that need some, from the public interfaces alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from truecluster.api import DeviceContext, DType, Packed, PluginError, WeightFormat


class HostDevice(DeviceContext):
    """The processor, as torch finds it."""

    id = kind = "cpu"

    def memory(self) -> tuple[None, None]:
        return None, None

    @contextmanager
    def scope(self) -> Iterator[None]:
        with torch.inference_mode():
            yield

    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def download(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def synchronize(self) -> None:
        """Nothing is queued."""

    def native(self, dtype: DType) -> bool:
        return dtype is DType.FP32

    def residual(self, compute: DType) -> DType:
        return DType.FP32


class Plain(WeightFormat):
    """fp32 elements in row-major order."""

    id = "plain"

    @classmethod
    def from_id(cls, id: str) -> Plain:
        if id != cls.id:
            raise PluginError(f"the only member is {cls.id!r}")
        return cls()

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        return 4 * math.prod(shape)

    def rows(self, packed: Packed, index: torch.Tensor | slice) -> torch.Tensor:
        values = self.checked(packed).view(torch.float32).view(packed.shape)
        return values if len(packed.shape) == 1 else values[index]

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        return self.pack(self.unpack(packed)[index])

    def pack(self, weight: torch.Tensor, stats: object = None) -> Packed:
        data = weight.float().contiguous().flatten().view(torch.uint8)
        return Packed(self.id, tuple(weight.shape), data)
