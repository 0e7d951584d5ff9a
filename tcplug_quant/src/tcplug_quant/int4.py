"""Four bits a weight in quant groups along a row: ``int4.gN.asym`` and ``int4.gN.sym``, N of 32, 64, 128.

Bytes: codes ``[out][ceil(in / 32)][16]``, byte j of a block holds element j in its low nibble and element j + 16 in
its high one; then fp16 ``scale[out][ceil(in / N)]``; asym has fp16 ``minimum[out][ceil(in / N)]`` after it.
``asym: w = code · scale + minimum``; ``sym: w = (code - 8) · scale``, where scale may be negative. The last quant
group of a row may be short; codes that only fill a block are 0 (asym) or 8 (sym).
"""

from __future__ import annotations

import math

import torch

from truecluster.api import PluginError

from .layout import Section
from .search import Asymmetric, Kind, Symmetric, best_fit
from .sectioned import SectionedFormat

BLOCK = 32
"""Weights that share 16 bytes of codes."""
GROUPS = (32, 64, 128)
MEMBERS = tuple(f"int4.g{group}.{kind}" for group in GROUPS for kind in ("asym", "sym"))


class Int4(SectionedFormat):
    """One member of the family; ``int4.gN`` is short for ``int4.gN.sym``."""

    limit = 65520.0

    def __init__(self, group: int, symmetric: bool) -> None:
        self.group, self.symmetric = group, symmetric
        self.id = f"int4.g{group}.{'sym' if symmetric else 'asym'}"
        self._kind: Kind = Symmetric() if symmetric else Asymmetric()

    @classmethod
    def from_id(cls, id: str) -> Int4:
        full = id if id.endswith("sym") else f"{id}.sym"
        if full not in MEMBERS:
            raise PluginError(
                f"format {id!r} doesn't exist; members of int4 are {', '.join(MEMBERS)} (int4.gN is int4.gN.sym)"
            )
        _, group, kind = full.split(".")
        return cls(int(group[1:]), kind == "sym")

    def sections(self, shape: tuple[int, ...]) -> tuple[Section, ...]:
        out, width = self._matrix(shape)
        codes = Section((out, math.ceil(width / BLOCK), BLOCK // 2), torch.uint8)
        per_group = Section((out, math.ceil(width / self.group)), torch.float16)
        return (codes, per_group) if self.symmetric else (codes, per_group, per_group)

    def decode(self, parts: list[torch.Tensor], width: int) -> torch.Tensor:
        codes, scale, *minimum = parts
        values = torch.cat([codes & 15, codes >> 4], dim=-1).float()  # [rows, blocks, 32]
        if self.symmetric:
            values.sub_(8).mul_(self._per_block(scale, codes.shape[1]))
        else:
            values.mul_(self._per_block(scale, codes.shape[1])).add_(self._per_block(minimum[0], codes.shape[1]))
        return values.flatten(1)[:, :width]

    def encode(self, tile: torch.Tensor, into: list[torch.Tensor]) -> None:
        packed, *grid = into
        width = tile.shape[1]
        whole = width - width % self.group
        codes = torch.full((len(tile), packed.shape[1] * BLOCK), 8 if self.symmetric else 0, dtype=torch.uint8)
        for start, stop in ((0, whole), (whole, width)):
            if stop > start:
                self._fit(tile[:, start:stop], codes[:, start:stop], [g[:, start // self.group :] for g in grid])
        low, high = codes.view(len(tile), -1, 2, BLOCK // 2).unbind(2)
        packed.copy_(low | high << 4)

    def _fit(self, columns: torch.Tensor, codes: torch.Tensor, grid: list[torch.Tensor]) -> None:
        """Whole quant groups, or a short one alone."""
        rows, groups = len(columns), math.ceil(columns.shape[1] / self.group)
        best = best_fit(columns.float().reshape(rows * groups, -1), self._kind)
        codes.copy_(best.codes.view(rows, -1))
        for into, values in zip(grid, (best.scale, best.low), strict=False):
            into[:, :groups] = values.view(rows, groups)

    def _per_block(self, values: torch.Tensor, blocks: int) -> torch.Tensor:
        """``[rows, groups]`` fp16 → ``[rows, blocks, 1]`` fp32."""
        return values.float().repeat_interleave(self.group // BLOCK, dim=1)[:, :blocks, None]
