"""How weights in quant groups come: codes, scales and minima taken from packed bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import attrs
import torch

ALIGNMENT = 64


def starts_of(sizes: Sequence[int]) -> list[int]:
    """Where sections of so many bytes begin, each at a multiple of 64, and last where the data ends."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end + -end % ALIGNMENT)
        end = starts[-1] + size
    return [*starts, end]


class Wire(ABC):
    """One way to pack a matrix whose rows have codes, scales and maybe minima, ``row_bytes`` of each."""

    @abstractmethod
    def parts(self, data: torch.Tensor, out: int, row_bytes: Sequence[int]) -> list[torch.Tensor]:
        """Each as ``[out, blocks, bytes]``, sharing memory with ``data``."""


@attrs.frozen
class Sections(Wire):
    """The codes of all rows, then all scales, then all minima."""

    def parts(self, data: torch.Tensor, out: int, row_bytes: Sequence[int]) -> list[torch.Tensor]:
        starts = starts_of([out * size for size in row_bytes])
        return [data[at : at + out * size].view(out, 1, size) for at, size in zip(starts, row_bytes, strict=False)]


@attrs.frozen
class Interleaved(Wire):
    """Blocks of 32 weights that hold their own scale; ``fields`` says which of their bytes belong to which part."""

    nbytes: int
    fields: tuple[slice, ...]

    def parts(self, data: torch.Tensor, out: int, row_bytes: Sequence[int]) -> list[torch.Tensor]:
        return [data.view(out, -1, self.nbytes)[:, :, field] for field in self.fields]
