"""What a weight must satisfy before it is packed."""

from __future__ import annotations

import math

import torch

from truecluster.api import CheckpointError

TILE_VALUES = 1 << 18
"""Of a tile of rows that a packer works on: 1 MiB in fp32 stays in a CPU's cache."""


def refuse_unholdable(weight: torch.Tensor, limit: float, format: str) -> None:
    """Raise `CheckpointError` where a value is not finite, or its magnitude reaches ``limit`` (``inf``: no limit)."""
    if not weight.numel():
        return
    low, high = (float(end) for end in weight.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        bad = int((~weight.isfinite()).sum())
        raise CheckpointError(f"{bad} of {weight.numel()} values are NaN or infinite; the checkpoint is damaged")
    largest = max(-low, high)
    if largest >= limit:
        beyond = int((weight.abs() >= limit).sum())
        raise CheckpointError(
            f"{beyond} of {weight.numel()} values are too large for {format} (largest {largest:.6g}); "
            "choose a recipe with a wider range, such as bf16 or fp32"
        )


def tiles(rows: int, columns: int) -> list[slice]:
    """Slices that cover ``rows``, each of about `TILE_VALUES` values."""
    step = max(1, TILE_VALUES // max(1, columns))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
