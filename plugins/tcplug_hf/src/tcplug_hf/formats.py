"""Elements of safetensors files that are weights but none of fp32, fp16 and bf16: read as they lie, never packed.

Integers and booleans aren't weights, and numbers with a scale of their own elsewhere in the file can't be told apart
from plain ones, so nothing else is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from truecluster.api import Packed, PluginError, WeightFormat

FAMILY = "safetensors"
DTYPES: Mapping[str, torch.dtype] = {
    "f64": torch.float64,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e5m2": torch.float8_e5m2,
}
"""Member → little-endian elements, in row-major order. fp64 is rounded to fp32, to nearest."""


class SafetensorsFormat(WeightFormat):
    """``safetensors.f64``, ``safetensors.f8_e4m3`` and ``safetensors.f8_e5m2``; tensors of any shape."""

    def __init__(self, member: str) -> None:
        self.id, self._dtype = f"{FAMILY}.{member}", DTYPES[member]

    @classmethod
    def from_id(cls, id: str) -> SafetensorsFormat:
        member = id.removeprefix(f"{FAMILY}.")
        if member not in DTYPES or id == member:
            known = ", ".join(f"{FAMILY}.{name}" for name in DTYPES)
            raise PluginError(f"{id!r} is not read as weights; of {FAMILY}'s own formats these are: {known}")
        return cls(member)

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape) * self._dtype.itemsize

    def rows(self, packed: Packed, index: torch.Tensor | slice) -> torch.Tensor:
        if len(packed.shape) < 2:
            return self._typed(self.checked(packed)).view(packed.shape).float()
        raw = self._raw_rows(packed)[index]
        return self._typed(raw.flatten()).view(raw.shape[0], *packed.shape[1:]).float()

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        taken = self._raw_rows(packed).index_select(0, index.to(packed.data.device))
        return Packed(self.id, (len(index), *packed.shape[1:]), taken.flatten())

    def _raw_rows(self, packed: Packed) -> torch.Tensor:
        return self.checked(packed).view(packed.shape[0], math.prod(packed.shape[1:]) * self._dtype.itemsize)

    def _typed(self, raw: torch.Tensor) -> torch.Tensor:
        """Flat bytes as elements; copied only where a mapped file has them unaligned."""
        aligned = raw.storage_offset() % self._dtype.itemsize == 0
        return (raw if aligned else raw.clone()).view(self._dtype)
