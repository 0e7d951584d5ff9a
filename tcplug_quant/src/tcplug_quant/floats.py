"""fp32, fp16 and bf16: little-endian elements in row-major order, tensors of any shape.

Rounding is to nearest, ties to even. A vector or scalar is one row.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch

from truecluster.api import Packed, PluginError, WeightFormat

from .checks import refuse_unholdable


class FloatFormat(WeightFormat):
    """Packing a tensor that has the dtype already shares its memory."""

    dtype: ClassVar[torch.dtype]
    limit: ClassVar[float]
    """The smallest magnitude that rounds to infinity."""

    @classmethod
    def from_id(cls, id: str) -> FloatFormat:
        if id != cls.id:
            raise PluginError(f"format {id!r} doesn't exist; the only member of {cls.id} is {cls.id!r}")
        return cls()

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape) * self.dtype.itemsize

    def rows(self, packed: Packed, index: torch.Tensor | slice | int) -> torch.Tensor:
        """As the base; an int names one row, ``[1, in]``; fp32 rows may share memory with the packed bytes."""
        if len(packed.shape) < 2:
            return self._typed(self.checked(packed)).view(packed.shape).float()
        at = [index] if isinstance(index, int) else index
        raw = self._raw_rows(packed)[at]
        return self._typed(raw.flatten()).view(raw.shape[0], *packed.shape[1:]).float()

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        raw = self._raw_rows(packed)
        taken = raw.index_select(0, index.to(raw.device))
        return Packed(self.id, (len(index), *packed.shape[1:]), taken.flatten())

    def pack(self, weight: torch.Tensor, stats: object = None) -> Packed:
        refuse_unholdable(weight, self.limit, self.id)
        data = weight.to(self.dtype).contiguous().flatten().view(torch.uint8)
        return Packed(self.id, tuple(weight.shape), data)

    def _raw_rows(self, packed: Packed) -> torch.Tensor:
        return self.checked(packed).view(packed.shape[0], math.prod(packed.shape[1:]) * self.dtype.itemsize)

    def _typed(self, raw: torch.Tensor) -> torch.Tensor:
        """Flat bytes as elements; copied only where a mapped file has them unaligned."""
        aligned = raw.storage_offset() % self.dtype.itemsize == 0
        return (raw if aligned else raw.clone()).view(self.dtype)


class Fp32(FloatFormat):
    """IEEE binary32."""

    id, dtype, limit = "fp32", torch.float32, float("inf")


class Fp16(FloatFormat):
    """IEEE binary16; magnitudes from 65520 on would round to infinity and are refused."""

    id, dtype, limit = "fp16", torch.float16, 65520.0


class Bf16(FloatFormat):
    """The upper half of binary32."""

    id, dtype, limit = "bf16", torch.bfloat16, (2 - 2**-8) * 2.0**127
