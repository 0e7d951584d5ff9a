"""What formats made of sections have in common."""

from __future__ import annotations

from abc import abstractmethod

import torch

from truecluster.api import Packed, PluginError, WeightFormat

from .checks import refuse_unholdable, tiles
from .layout import Section, blank, offsets, pick, take, views


class SectionedFormat(WeightFormat):
    """A subclass says which sections there are, how rows of them are read, and how a tile of rows is packed."""

    limit: float = float("inf")
    """The smallest magnitude that can't be packed."""

    @abstractmethod
    def sections(self, shape: tuple[int, ...]) -> tuple[Section, ...]:
        """The sections of a tensor. Raises `PluginError` where the format can't hold the shape."""

    @abstractmethod
    def decode(self, parts: list[torch.Tensor], width: int) -> torch.Tensor:
        """Rows of every section → fp32 ``[rows, width]``."""

    @abstractmethod
    def encode(self, tile: torch.Tensor, into: list[torch.Tensor]) -> None:
        """Pack rows ``tile [rows, width]`` into the same rows of every section."""

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        return offsets(self.sections(shape))[-1]

    def rows(self, packed: Packed, index: torch.Tensor | slice | int) -> torch.Tensor:
        """As the base; an int names one row, ``[1, in]``."""
        return self.decode(pick(self.checked(packed), self.sections(packed.shape), index), packed.shape[-1])

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        data = take(self.checked(packed), self.sections(packed.shape), index)
        return Packed(self.id, (len(index), *packed.shape[1:]), data)

    def pack(self, weight: torch.Tensor, stats: object = None) -> Packed:
        refuse_unholdable(weight, self.limit, self.id)
        sections = self.sections(tuple(weight.shape))
        data = blank(sections)
        targets = views(data, sections)
        for rows in tiles(*weight.shape):
            self.encode(weight[rows], [target[rows] for target in targets])
        return Packed(self.id, tuple(weight.shape), data)

    def _matrix(self, shape: tuple[int, ...]) -> tuple[int, int]:
        if len(shape) != 2:
            raise PluginError(f"format {self.id} holds matrices, not a tensor of shape {shape}; keep it, or use fp16")
        return shape
