"""How matrices lie for the library, known by their format's id alone.

Floats and int8 lie as they come. Of the others, which have quant groups, 16 outputs lie together, so that each has a
lane of its own: four bytes of codes of each in turn, then two of each one's scale, then of each one's minimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import torch

from truecluster.api import WeightFormat

from .wires import Interleaved, Sections, Wire, starts_of

SUB_BLOCK = 32
"""Weights that share 16 bytes of int4 codes."""
PANEL = 16
"""Outputs that lie together."""
SIGN = 128
"""The bit that, turned over, makes signed bytes unsigned ones around 128."""
FORMATS = {"fp32": 0, "fp16": 1, "bf16": 2, "int8": 3}
INT4 = {"asym": 4, "sym": 5}
BYTES = 6
GROUPS = {"g32": 32, "g64": 64, "g128": 128}


@attrs.frozen
class Layout:
    """The library's number for it; of quant groups, how many weights they have and how they come."""

    number: int
    group: int = 0
    wire: Wire | None = None

    def row_bytes(self, width: int) -> list[int]:
        """Of a row, in each section."""
        if self.wire:
            grids = 2 if self.number == INT4["asym"] else 1
            codes = SUB_BLOCK if self.number == BYTES else SUB_BLOCK // 2
            return [math.ceil(width / SUB_BLOCK) * codes, *[2 * self.groups(width)] * grids]
        if self.number == FORMATS["int8"]:
            return [width, 4]
        return [width * (2 if self.number else 4)]

    def sizes(self, out: int, width: int) -> list[int]:
        """Bytes of each section; panels are whole."""
        rows = math.ceil(out / PANEL) * PANEL if self.wire else out
        return [rows * size for size in self.row_bytes(width)]

    def starts(self, out: int, width: int) -> list[int]:
        """Where each section begins, and last where the data ends."""
        return starts_of(self.sizes(out, width))

    def groups(self, width: int) -> int:
        """Quant groups of a row."""
        return math.ceil(width / self.group) if self.group else 0

    def lay_out(self, data: torch.Tensor, out: int, width: int) -> torch.Tensor:
        """Packed bytes as the library reads them: the same memory where they lie as they came."""
        if self.wire is None:
            return data
        laid = torch.zeros(self.starts(out, width)[-1], dtype=torch.uint8)
        parts = self.wire.parts(data, out, self.row_bytes(width))
        for panels, part in zip(self._panels(laid, out, width), parts, strict=True):
            _fill(panels, part)
        if self.number == BYTES:
            laid[: self.sizes(out, width)[0]].bitwise_xor_(SIGN)
        return laid

    def _panels(self, data: torch.Tensor, out: int, width: int) -> list[torch.Tensor]:
        """Each section as ``[panels, turns, 16, bytes]``, sharing memory with ``data``."""
        shapes = [(size // each, PANEL, each) for size, each in zip(self.row_bytes(width), (4, 2, 2), strict=False)]
        places = zip(self.starts(out, width), self.sizes(out, width), shapes, strict=False)
        return [data[start : start + size].view(-1, *shape) for start, size, shape in places]


def _fill(panels: torch.Tensor, part: torch.Tensor) -> None:
    """Rows ``[out, blocks, bytes]`` into panels, the last of which may stay partly empty."""
    out, blocks, size = part.shape
    turns = (blocks, size // panels.shape[-1])
    rows = panels.view(len(panels), *turns, *panels.shape[2:]).permute(0, 3, 1, 2, 4)  # [panels, 16, *turns, bytes]
    part = part.view(out, *turns, -1)
    whole = out // PANEL
    rows[:whole].copy_(part[: whole * PANEL].view(whole, PANEL, *part.shape[1:]))
    if out % PANEL:
        rows[whole, : out % PANEL].copy_(part[whole * PANEL :])


WIRES: Mapping[str, Layout] = {
    **{f"int4.{name}.{kind}": Layout(INT4[kind], group, Sections()) for name, group in GROUPS.items() for kind in INT4},
    "gguf.q8_0": Layout(BYTES, 32, Interleaved(34, (slice(2, 34), slice(0, 2)))),
    "gguf.q4_0": Layout(INT4["sym"], 32, Interleaved(18, (slice(2, 18), slice(0, 2)))),
    "gguf.q4_1": Layout(INT4["asym"], 32, Interleaved(20, (slice(4, 20), slice(0, 2), slice(2, 4)))),
}
"""ggml's blocks of 32 are an fp16 scale, an fp16 minimum where there is one, and codes in the order that int4 has."""


def layout_of(format: WeightFormat) -> Layout | None:
    """``None`` for a format that the library doesn't know."""
    if format.id in FORMATS:
        return Layout(FORMATS[format.id])
    return WIRES.get(format.id)
