"""The reference kernel: every leaf in plain torch, for every format and device.

It unpacks on each call, in tiles of rows, and never holds an unpacked matrix. It is row-local, not invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from torch.nn import functional

from truecluster.api import (
    CheckpointError,
    Description,
    DType,
    Dtypes,
    Kernel,
    Packed,
    Role,
    Slot,
    Target,
    WeightFormat,
)

from .descriptions import Attend, Embedding, Linear, Norm
from .dtypes import torch_dtype
from .state import PAGE, Batch, PagedState

TILE_BYTES = 4 << 20
"""Of unpacked fp32 rows: a tile stays in a CPU's cache."""
SCORE_BYTES = 64 << 20
"""Of a tile's attention scores: enough for a GPU, and little beside the keys of a long context."""
FP16_LIMIT = 65520.0
"""The smallest magnitude that rounds to infinity."""


@attrs.frozen(eq=False)
class Handle:
    """A packed tensor on its device, with the format that reads it."""

    format: WeightFormat
    packed: Packed

    def whole(self) -> torch.Tensor:
        """Unpacked, fp32: for vectors."""
        return self.format.unpack(self.packed)


class ReferenceKernel(Kernel):
    """Accepts every leaf; always ranked below every other kernel."""

    def accepts(self, description: Description, target: Target) -> bool:
        return type(description) in BINDERS

    def prepare(self, slot: Slot, packed: Packed, target: Target) -> Handle:
        data = target.device.upload(packed.data)
        handle = Handle(target.formats[slot.key], attrs.evolve(packed, data=data))
        if target.dtypes.compute is DType.FP16 and slot.role is not Role.NORM:
            refuse_overflow(slot, handle)
        return handle

    def bind(self, description: Description, handles: Mapping[str, Any], target: Target) -> Callable[..., Any]:
        return BINDERS[type(description)](description, handles, target.dtypes)

    def resident_bytes(self, format: WeightFormat, shape: tuple[int, ...]) -> int:
        return format.wire_bytes(shape)


def refuse_overflow(slot: Slot, handle: Handle) -> None:
    """Raises `CheckpointError` naming the slot where it holds what fp16 can't."""
    tiles = [handle.format.rows(handle.packed, rows).abs().amax() for rows in _tiles(handle.packed.shape)]
    largest = float(torch.stack(tiles).max())
    if not largest < FP16_LIMIT:
        raise CheckpointError(
            f"{slot.key} holds {largest:.6g}, and fp16 ends at 65504: compute with --dtype bf16 or --dtype fp32"
        )


def _tiles(shape: tuple[int, ...]) -> list[slice]:
    """Slices over the rows of a matrix, or the one row that a vector is."""
    rows, width = shape if len(shape) == 2 else (1, shape[0])
    step = max(1, TILE_BYTES // (4 * width))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def bind_linear(linear: Linear, handles: Mapping[str, Handle], dtypes: Dtypes) -> Callable[..., torch.Tensor]:
    matrix = handles[linear.weight.key]
    compute = torch.float32 if linear.weight.role is Role.HEAD else torch_dtype(dtypes.compute)
    bias = handles[linear.bias.key].whole().to(compute) if linear.bias else None
    out, tiles = linear.weight.shape[0], _tiles(linear.weight.shape)

    def run(x: torch.Tensor) -> torch.Tensor:
        x = x.to(compute)
        y = x.new_empty(x.shape[0], out)
        for rows in tiles:
            y[:, rows] = functional.linear(x, matrix.format.rows(matrix.packed, rows).to(compute))
        return y if bias is None else y + bias

    return run


def bind_norm(norm: Norm, handles: Mapping[str, Handle], dtypes: Dtypes) -> Callable[..., torch.Tensor]:
    weight, compute = handles[norm.weight.key].whole(), torch_dtype(dtypes.compute)

    def run(hidden: torch.Tensor) -> torch.Tensor:
        wide = hidden.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.eps)
        return (wide * scale * weight).to(compute)

    return run


def bind_embedding(embedding: Embedding, handles: Mapping[str, Handle], dtypes: Dtypes) -> Callable[..., torch.Tensor]:
    matrix, residual = handles[embedding.weight.key], torch_dtype(dtypes.residual)

    def run(ids: torch.Tensor) -> torch.Tensor:
        return matrix.format.rows(matrix.packed, ids.long()).to(residual)

    return run


def bind_attend(attend: Attend, handles: Mapping[str, Handle], dtypes: Dtypes) -> Callable[..., torch.Tensor]:
    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, state: PagedState) -> torch.Tensor:
        mixed = torch.empty_like(q)
        for (first, count, position, _), pages in zip(batch.rows.tolist(), batch.pages, strict=True):
            rows, end = slice(first, first + count), position + count
            ids = pages[: -(-end // PAGE)].long().to(q.device)
            where = torch.arange(position, end, device=q.device)
            keys, values = (
                _append_and_gather(state.arrays[name], ids, where, new[rows], end) for name, new in (("k", k), ("v", v))
            )
            mixed[rows] = _softmax_mix(q[rows], keys, values, where, attend.scale, state.sliding)
        return mixed

    return run


def attend_bytes(attend: Attend, tokens: int, context: int) -> int:
    """What attention of a step of ``tokens`` over ``context`` takes at most.

    A tile's scores and weights, and how far each pair is apart; keys and values as they are gathered and in fp32, and
    for every head, twice, as products lay them out anew.
    """
    scores = min(SCORE_BYTES, 4 * attend.heads * tokens * context)
    pairs = scores // attend.heads
    return 2 * scores + 2 * pairs + 4 * context * attend.head_dim * (4 * attend.kv_heads + 4 * attend.heads)


def _append_and_gather(
    array: torch.Tensor, pages: torch.Tensor, where: torch.Tensor, new: torch.Tensor, end: int
) -> torch.Tensor:
    """Write ``new [count, …]`` at positions ``where`` and return all ``[end, …]``."""
    array[pages[where // PAGE], where % PAGE] = new
    return array[pages].flatten(0, 1)[:end]


def _softmax_mix(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, where: torch.Tensor, scale: float, sliding: int | None
) -> torch.Tensor:
    """``q [c, heads, dim]`` over ``keys``, ``values [end, kv_heads, dim]`` → ``[c, heads, dim]``, a tile at a time."""
    (count, heads, _), (end, kv_heads, _) = q.shape, keys.shape
    keys, values = (x.float().repeat_interleave(heads // kv_heads, dim=1).transpose(0, 1) for x in (keys, values))
    mixed, tile = torch.empty_like(q), max(1, SCORE_BYTES // (4 * heads * end))
    for start in range(0, count, tile):
        rows = slice(start, min(start + tile, count))
        scores = (q[rows].float().transpose(0, 1) @ keys.transpose(1, 2)).mul_(scale)  # [heads, tile, end]
        distance = where[rows, None] - torch.arange(end, device=q.device)
        hidden = distance < 0 if sliding is None else (distance < 0) | (distance >= sliding)
        weights = scores.masked_fill_(hidden, float("-inf")).softmax(-1)
        mixed[rows] = (weights @ values).transpose(0, 1).to(q.dtype)
    return mixed


BINDERS: dict[type, Callable[..., Callable[..., torch.Tensor]]] = {
    Linear: bind_linear,
    Norm: bind_norm,
    Embedding: bind_embedding,
    Attend: bind_attend,
}
