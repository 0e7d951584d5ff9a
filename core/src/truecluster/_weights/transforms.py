"""Applying a dialect's transforms: row reordering on packed bytes, the rest on values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from truecluster.api import AddConstant, Packed, RotaryRows, SliceRows, Transform, Transpose, WeightFormat


def source_shape(shape: tuple[int, ...], transforms: tuple[Transform, ...]) -> tuple[int, ...]:
    """The shape a tensor must have so that ``transforms`` make ``shape`` of it."""
    for transform in reversed(transforms):
        if isinstance(transform, Transpose):
            shape = shape[::-1]
        if isinstance(transform, SliceRows):
            shape = (shape[0] * transform.parts // (transform.stop - transform.start), *shape[1:])
    return shape


def apply(transform: Transform, packed: Packed, format: WeightFormat, config: Mapping[str, Any]) -> Packed:
    """One transform on one packed tensor, whose format is ``format``."""
    if isinstance(transform, RotaryRows):
        return take_rows(packed, format, rotary_order(packed.shape[0], config[transform.heads]))
    if isinstance(transform, SliceRows):
        part = packed.shape[0] // transform.parts
        return take_rows(packed, format, torch.arange(transform.start * part, transform.stop * part))
    if isinstance(transform, Transpose):
        return _by_value(packed, format, lambda values: values.T.contiguous())
    assert isinstance(transform, AddConstant)
    constant = transform.value
    return _by_value(packed, format, lambda values: values + constant)


def rotary_order(rows: int, heads: int) -> torch.Tensor:
    """Index of the source row for each row: pair element ``2k + half`` goes to ``half · dim/2 + k``, head by head."""
    return torch.arange(rows).view(heads, -1, 2).transpose(1, 2).flatten()


def take_rows(packed: Packed, format: WeightFormat, index: torch.Tensor) -> Packed:
    """Rows (of a vector: elements) in the order of ``index``."""
    if len(packed.shape) > 1:
        return format.take(packed, index)
    return _by_value(packed, format, lambda values: values[index])


def _by_value(packed: Packed, format: WeightFormat, change: Callable[[torch.Tensor], torch.Tensor]) -> Packed:
    return format.pack(change(format.unpack(packed)))
