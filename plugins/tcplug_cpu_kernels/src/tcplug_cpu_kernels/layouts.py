"""How the library reads the matrices of a format, known by the format's id alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs
import torch

from truecluster.api import WeightFormat

SUB_BLOCK = 32
"""Weights that share 16 bytes of int4 codes."""
ALIGNMENT = 64
FORMATS = {"fp32": 0, "fp16": 1, "bf16": 2, "int8": 3}
INT4 = {"asym": 4, "sym": 5}
GROUPS = {"g32": 32, "g64": 64, "g128": 128}


@attrs.frozen
class Interleaved:
    """A wire format in blocks of 32 weights that hold their own scales.

    ``fields`` says which bytes of a block belong to which section: codes, scale, minimum.
    """

    nbytes: int
    fields: tuple[slice, ...]

    def part(self, data: torch.Tensor, sections: Sequence[torch.Tensor]) -> None:
        """Fill the sections ``[out, blocks · bytes]`` from blocks one after another."""
        for section, field in zip(sections, self.fields, strict=True):
            blocks = data.view(len(section), -1, self.nbytes)[:, :, field]
            section.view(blocks.shape).copy_(blocks)

    def join(self, sections: Sequence[torch.Tensor]) -> torch.Tensor:
        """The blocks again, bit for bit."""
        rows, size = sections[-1].shape
        blocks = torch.empty(rows, size // 2, self.nbytes, dtype=torch.uint8)
        for section, field in zip(sections, self.fields, strict=True):
            into = blocks[:, :, field]
            into.copy_(section.view(into.shape))
        return blocks.flatten()


@attrs.frozen
class Layout:
    """How rows of a format lie: the library's number for it, weights per quant group (0: none), and the wire's own
    way where that is another.
    """

    number: int
    group: int = 0
    wire: Interleaved | None = None

    def sizes(self, out: int, width: int) -> list[int]:
        """Bytes of each section."""
        if not self.group:
            return (
                [out * width, 4 * out] if self.number == FORMATS["int8"] else [out * width * (2 if self.number else 4)]
            )
        per_group = 2 * out * self.groups(width)
        codes = out * math.ceil(width / SUB_BLOCK) * SUB_BLOCK // 2
        return [codes, per_group] if self.number == INT4["sym"] else [codes, per_group, per_group]

    def starts(self, out: int, width: int) -> list[int]:
        """Where each section begins, and last where the data ends."""
        starts, end = [], 0
        for size in self.sizes(out, width):
            starts.append(end + -end % ALIGNMENT)
            end = starts[-1] + size
        return [*starts, end]

    def sections(self, data: torch.Tensor, out: int, width: int) -> list[torch.Tensor]:
        """Each as ``[out, bytes]``, sharing memory with ``data``."""
        pairs = zip(self.starts(out, width), self.sizes(out, width), strict=False)
        return [data[start : start + size].view(out, -1) for start, size in pairs]

    def groups(self, width: int) -> int:
        """Quant groups of a row."""
        return math.ceil(width / self.group) if self.group else 0


WIRES: Mapping[str, Layout] = {
    "gguf.q4_0": Layout(INT4["sym"], 32, Interleaved(18, (slice(2, 18), slice(0, 2)))),
    "gguf.q4_1": Layout(INT4["asym"], 32, Interleaved(20, (slice(4, 20), slice(0, 2), slice(2, 4)))),
}
"""ggml's blocks of 32: fp16 scale, fp16 minimum where there is one, codes in the order that int4 has."""


def layout_of(format: WeightFormat) -> Layout | None:
    """``None`` for a format that the library doesn't know."""
    if format.id in FORMATS:
        return Layout(FORMATS[format.id])
    if format.id in WIRES:
        return WIRES[format.id]
    family, group, kind = (*format.id.split("."), "", "")[:3]
    if family == "int4" and group in GROUPS and format.id == f"int4.{group}.{kind}" and kind in INT4:
        return Layout(INT4[kind], GROUPS[group])
    return None
