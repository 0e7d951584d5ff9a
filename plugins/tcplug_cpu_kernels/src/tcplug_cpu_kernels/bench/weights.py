"""Random weights of any size, made as bytes: no packing, no model."""

from __future__ import annotations

from typing import Any

import torch

from truecluster.api import Description, Packed, PluginError, WeightFormat
from truecluster.nn import Linear

from ..handles import MatrixHandle, VectorHandle
from ..layouts import layout_of

FLOATS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class Named(WeightFormat):
    """A format's name, for handles that are made here."""

    def __init__(self, id: str) -> None:
        self.id = id

    @classmethod
    def from_id(cls, id: str) -> WeightFormat:
        return cls(id)

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        return len(_bytes(self.id, (1, shape[-1]))) * shape[0]

    def rows(self, packed: Packed, index: torch.Tensor | slice) -> torch.Tensor:
        raise PluginError("a benchmark's weights are never unpacked; use a format that a plugin offers")

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        raise PluginError("a benchmark's weights are never taken apart; use a format that a plugin offers")


def matrix(id: str, out: int, width: int) -> MatrixHandle:
    """Codes at random, scales such that products stay small."""
    layout = layout_of(Named(id))
    if layout is None:
        raise PluginError(
            f"the CPU kernels don't know the format {id!r}; they know fp32, fp16, bf16, int8, int4.g32.asym"
        )
    return MatrixHandle((out, width), _bytes(id, (out, width)), layout)


def handles(description: Description, id: str) -> dict[str, Any]:
    """For every slot; vectors are ones."""
    return {
        slot.key: matrix(id, *slot.shape) if len(slot.shape) > 1 else VectorHandle(torch.ones(slot.shape))
        for slot in description.slots()
    }


def linears_of(description: Description) -> list[Linear]:
    """All linears below, in order."""
    found: list[Linear] = []
    for child in description.children().values():
        for one in child if isinstance(child, tuple) else (child,):
            found += [one] if isinstance(one, Linear) else linears_of(one)
    return found


def _bytes(id: str, shape: tuple[int, int]) -> torch.Tensor:
    if id in FLOATS:
        return (torch.randn(shape) * 0.02).to(FLOATS[id]).flatten().view(torch.uint8)
    layout = layout_of(Named(id))
    assert layout is not None
    codes, *grids = layout.sizes(*shape)
    parts = [torch.randint(0, 256, (codes,), dtype=torch.uint8)]
    for size, value in zip(grids, (0.005, -0.04), strict=False):
        parts[-1] = torch.nn.functional.pad(parts[-1], (0, -len(parts[-1]) % 64))
        dtype = torch.float16 if layout.group else torch.float32
        parts.append(torch.full((size // dtype.itemsize,), value, dtype=dtype).view(torch.uint8))
    return torch.cat(parts)
