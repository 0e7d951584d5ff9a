"""Packed matrices and the formats that they lie in.

A format id is ``family`` or ``family.members``: ``fp16``, ``int4.g32.asym``, ``gguf.q4_k``. The id changes whenever
any packed byte would. Packed bytes are hashed, stored and sent as they are; what a kernel makes of them is not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import attrs

from .errors import CannotPack

if TYPE_CHECKING:
    import torch


@attrs.frozen(eq=False)
class Packed:
    """One tensor in one format: ``data`` is flat uint8 of ``format.wire_bytes(shape)`` bytes, often a mapped file."""

    format: str
    shape: tuple[int, ...]
    data: torch.Tensor


class WeightFormat(ABC):
    """One member of a format family. Rows are the first axis; a vector counts as one row."""

    id: str

    @classmethod
    @abstractmethod
    def from_id(cls, id: str) -> WeightFormat:
        """The member that ``id`` names. Raises `PluginError` naming the members that exist."""

    @abstractmethod
    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        """Packed bytes of a tensor. Raises `PluginError` where the format can't hold the shape."""

    @abstractmethod
    def rows(self, packed: Packed, index: torch.Tensor | slice) -> torch.Tensor:
        """Unpack the rows named by ``index``: fp32 ``[len(index), in]``; a vector ignores it and gives ``[n]``."""

    @abstractmethod
    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        """The packed rows named by ``index``, bit for bit, as a smaller or reordered packed matrix."""

    def unpack(self, packed: Packed) -> torch.Tensor:
        """The whole tensor in fp32: what every kernel of the format is held to."""
        return self.rows(packed, slice(None))

    def pack(self, weight: torch.Tensor, stats: object = None) -> Packed:
        """Pack an fp32, fp16 or bf16 tensor. Raises `CannotPack` where the format is only read.

        Raises `CheckpointError` where a value can't be held (fp16 overflow).
        """
        raise CannotPack(f"format {self.id} can only be read; choose a recipe that packs, such as int4 or int8")
