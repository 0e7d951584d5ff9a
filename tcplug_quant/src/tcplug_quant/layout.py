"""Where the sections of a packed tensor lie, and typed views of them.

A section starts at a multiple of 64 bytes; the gaps are zeros, and nothing follows the last section.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import torch

ALIGNMENT = 64


@attrs.frozen
class Section:
    """A rectangular array within packed bytes; the first axis is rows."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Without padding."""
        return self.shape[0] * self.row_bytes


def offsets(sections: Sequence[Section]) -> list[int]:
    """Where each section starts, and last where the data ends."""
    starts, end = [], 0
    for section in sections:
        starts.append(end + -end % ALIGNMENT)
        end = starts[-1] + section.nbytes
    return [*starts, end]


def blank(sections: Sequence[Section]) -> torch.Tensor:
    """Zeroed packed bytes to be filled through `views`."""
    return torch.zeros(offsets(sections)[-1], dtype=torch.uint8)


def raw_rows(data: torch.Tensor, sections: Sequence[Section]) -> list[torch.Tensor]:
    """Each section as ``[rows, bytes per row]`` uint8, sharing memory with ``data``."""
    starts = offsets(sections)
    cuts = (data[start : start + s.nbytes] for start, s in zip(starts, sections, strict=False))
    return [cut.view(s.shape[0], s.row_bytes) for cut, s in zip(cuts, sections, strict=True)]


def typed(raw: torch.Tensor, section: Section) -> torch.Tensor:
    """Rows of `raw_rows` in the section's dtype and shape; copied only where bytes of a mapped file lie unaligned."""
    if raw.dtype != section.dtype and (raw.storage_offset() % section.dtype.itemsize or not raw.is_contiguous()):
        raw = raw.clone(memory_format=torch.contiguous_format)
    return raw.view(section.dtype).view(raw.shape[0], *section.shape[1:])


def views(data: torch.Tensor, sections: Sequence[Section]) -> list[torch.Tensor]:
    """Every section of an aligned ``data``, typed and writable."""
    return [typed(raw, section) for raw, section in zip(raw_rows(data, sections), sections, strict=True)]


def pick(data: torch.Tensor, sections: Sequence[Section], index: torch.Tensor | slice | int) -> list[torch.Tensor]:
    """The rows named by ``index`` of every section, typed; an int names one row."""
    if isinstance(index, int):
        index = torch.tensor([index], device=data.device)
    return [typed(raw[index], section) for raw, section in zip(raw_rows(data, sections), sections, strict=True)]


def take(data: torch.Tensor, sections: Sequence[Section], index: torch.Tensor) -> torch.Tensor:
    """Packed bytes of the named rows, section by section, as a tensor of their own."""
    smaller = [attrs.evolve(s, shape=(len(index), *s.shape[1:])) for s in sections]
    taken = torch.zeros(offsets(smaller)[-1], dtype=torch.uint8, device=data.device)
    for into, raw in zip(raw_rows(taken, smaller), raw_rows(data, sections), strict=True):
        torch.index_select(raw, 0, index.to(data.device), out=into)
    return taken
