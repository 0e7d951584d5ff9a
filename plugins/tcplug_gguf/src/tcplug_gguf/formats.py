"""The format family ``gguf``: block formats that are read and moved, never made."""

from __future__ import annotations

import math

import torch

from truecluster.api import Packed, PluginError, WeightFormat

from .layouts import UNPACK
from .types import TENSOR_TYPES, TensorType

TILE = 1 << 18
"""Elements that are unpacked at once: a few MB of intermediate values, and few calls on a device."""

_LAYOUTS = {kind.format: kind for kind in TENSOR_TYPES.values() if kind.format in UNPACK}


class GgufFormat(WeightFormat):
    """One block format. A row is a whole number of blocks, so rows are taken without unpacking."""

    def __init__(self, layout: TensorType) -> None:
        self.id = layout.format
        self._layout = layout

    @classmethod
    def from_id(cls, id: str) -> GgufFormat:
        if id not in _LAYOUTS:
            raise PluginError(f"there is no format {id!r}; the family gguf has {', '.join(_LAYOUTS)}")
        return cls(_LAYOUTS[id])

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        if not shape or shape[-1] % self._layout.block:
            raise PluginError(f"format {self.id} holds rows of multiples of {self._layout.block} elements, not {shape}")
        return math.prod(shape) // self._layout.block * self._layout.nbytes

    def rows(self, packed: Packed, index: torch.Tensor | slice) -> torch.Tensor:
        rows = self._packed_rows(packed)
        rows = rows[index] if len(packed.shape) > 1 else rows
        values = self._values(rows.reshape(-1, self._layout.nbytes))
        return values.view(rows.shape[0], *packed.shape[1:]) if len(packed.shape) > 1 else values.view(packed.shape)

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        rows = self._packed_rows(packed)[index.to(packed.data.device)]
        return Packed(self.id, (rows.shape[0], *packed.shape[1:]), rows.flatten())

    def _values(self, blocks: torch.Tensor) -> torch.Tensor:
        """``[n, bytes]`` → ``[n, elements]`` fp32, a few blocks at a time so that little lies beside the result."""
        unpack, step = UNPACK[self.id], TILE // self._layout.block
        if len(blocks) <= step:
            return unpack(blocks)
        values = torch.empty(len(blocks), self._layout.block, device=blocks.device)
        for start in range(0, len(blocks), step):
            values[start : start + step] = unpack(blocks[start : start + step])
        return values

    def _packed_rows(self, packed: Packed) -> torch.Tensor:
        """``[rows, bytes]``; a vector is one row."""
        rows = 1 if len(packed.shape) == 1 else packed.shape[0]
        return self.checked(packed).view(rows, self.wire_bytes(packed.shape[-1:]))
