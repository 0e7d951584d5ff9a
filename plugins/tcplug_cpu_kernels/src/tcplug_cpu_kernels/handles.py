"""Handles: packed matrices as they lie, with the struct that the library reads them through, and vectors in fp32."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import torch

from truecluster.api import CheckpointError, Packed, Slot, WeightFormat

from .native import Matrix

SUB_BLOCK = 32
"""Weights that share 16 bytes of int4 codes."""
ALIGNMENT = 64
FORMATS = {"fp32": 0, "fp16": 1, "bf16": 2, "int8": 3}
INT4 = {"asym": 4, "sym": 5}
GROUPS = {"g32": 32, "g64": 64, "g128": 128}


@attrs.frozen
class Layout:
    """How rows of a format lie: the library's number for it, and weights per quant group (0: none)."""

    number: int
    group: int = 0

    def sections(self, out: int, width: int) -> list[int]:
        """Bytes of each section."""
        if not self.group:
            return (
                [out * width, 4 * out] if self.number == FORMATS["int8"] else [out * width * (2 if self.number else 4)]
            )
        per_group = 2 * out * self.groups(width)
        codes = out * math.ceil(width / SUB_BLOCK) * SUB_BLOCK // 2
        return [codes, per_group] if self.number == INT4["sym"] else [codes, per_group, per_group]

    def groups(self, width: int) -> int:
        """Quant groups of a row."""
        return math.ceil(width / self.group) if self.group else 0


def layout_of(format: WeightFormat) -> Layout | None:
    """``None`` for a format that the library doesn't know."""
    if format.id in FORMATS:
        return Layout(FORMATS[format.id])
    family, group, kind = (*format.id.split("."), "", "")[:3]
    if family == "int4" and group in GROUPS and format.id == f"int4.{group}.{kind}" and kind in INT4:
        return Layout(INT4[kind], GROUPS[group])
    return None


@attrs.frozen(eq=False)
class MatrixHandle:
    """A packed matrix, its bytes as they came."""

    format: WeightFormat
    packed: Packed
    layout: Layout

    def struct(self, bias: VectorHandle | None = None) -> Matrix:
        """For the library; valid while both handles live."""
        out, width = self.packed.shape
        starts = _starts(self.layout.sections(out, width))
        data, scale, minimum = (self.packed.data.data_ptr() + at for at in (*starts, 0, 0)[:3])
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
    return MatrixHandle(format, attrs.evolve(packed, data=packed.data.contiguous()), layout)


def resident_bytes(format: WeightFormat, shape: tuple[int, ...]) -> int:
    """Of a handle."""
    return 4 * shape[0] if len(shape) == 1 else format.wire_bytes(shape)


def _starts(sizes: Sequence[int]) -> list[int]:
    starts, end = [], 0
    for size in sizes:
        starts.append(end + -end % ALIGNMENT)
        end = starts[-1] + size
    return starts
