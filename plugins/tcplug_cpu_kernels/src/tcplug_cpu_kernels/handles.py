"""Handles: matrices with the struct that the library reads them through, and vectors in fp32."""

from __future__ import annotations

import attrs
import torch

from truecluster.api import CheckpointError, Packed, Slot, WeightFormat

from .layouts import SUB_BLOCK, Layout, layout_of
from .native import Matrix


@attrs.frozen(eq=False)
class MatrixHandle:
    """A matrix ``[out, in]``, its bytes as the layout has them."""

    shape: tuple[int, int]
    data: torch.Tensor
    layout: Layout

    def struct(self, bias: VectorHandle | None = None) -> Matrix:
        """For the library; valid while both handles live."""
        out, width = self.shape
        starts = self.layout.starts(out, width)[:-1]
        data, scale, minimum = (self.data.data_ptr() + at for at in (*starts, 0, 0)[:3])
        span = max(1, self.layout.group // SUB_BLOCK)
        groups = self.layout.groups(width)
        address = bias.values.data_ptr() if bias else None
        return Matrix(data, scale, minimum, address, out, width, groups, self.layout.number, span)


@attrs.frozen(eq=False)
class VectorHandle:
    """A norm or a bias: ``values [n]`` fp32."""

    values: torch.Tensor


def prepare(slot: Slot, packed: Packed, format: WeightFormat) -> MatrixHandle | VectorHandle:
    """Raises `CheckpointError` where there are fewer bytes than the library would read."""
    wanted = format.wire_bytes(packed.shape)
    if packed.data.numel() != wanted:
        raise CheckpointError(
            f"{slot.key}: {packed.data.numel()} bytes, but {format.id} {list(packed.shape)} has {wanted}; load it again"
        )
    if len(packed.shape) == 1:
        return VectorHandle(format.unpack(packed).contiguous())
    layout = layout_of(format)
    assert layout is not None, f"{slot.key} is in {format.id}, which nothing was accepted for"
    out, width = packed.shape
    return MatrixHandle((out, width), layout.lay_out(packed.data.contiguous(), out, width), layout)


def resident_bytes(format: WeightFormat, shape: tuple[int, ...]) -> int:
    """Of a handle."""
    layout = layout_of(format)
    if len(shape) == 1:
        return 4 * shape[0]
    return layout.starts(*shape)[-1] if layout and layout.wire else format.wire_bytes(shape)
