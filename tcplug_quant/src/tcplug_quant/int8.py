"""Eight bits a weight, symmetric, one scale per output channel (specification, section 10.2).

Bytes: int8 ``q[out][in]``, then fp32 ``scale[out]``; ``w = q · scale``, ``scale = max|row| / 127``.
"""

from __future__ import annotations

import torch

from truecluster.api import PluginError

from .layout import Section
from .sectioned import SectionedFormat


class Int8(SectionedFormat):
    """A row of zeros has scale 0. From 3.4e38 on, 127 times the rounded scale may be infinite."""

    id, limit = "int8", 3.4e38

    @classmethod
    def from_id(cls, id: str) -> Int8:
        if id != cls.id:
            raise PluginError(f"format {id!r} doesn't exist; the only member of int8 is 'int8'")
        return cls()

    def sections(self, shape: tuple[int, ...]) -> tuple[Section, ...]:
        out, width = self._matrix(shape)
        return Section((out, width), torch.int8), Section((out, 1), torch.float32)

    def decode(self, parts: list[torch.Tensor], width: int) -> torch.Tensor:
        codes, scale = parts
        return codes.float().mul_(scale)

    def encode(self, tile: torch.Tensor, into: list[torch.Tensor]) -> None:
        codes, scales = into
        wide = tile.float()
        low, high = wide.aminmax(dim=1, keepdim=True)
        scale = torch.maximum(-low, high) / 127
        scales.copy_(scale)
        codes.copy_((wide / scale.masked_fill(scale == 0, 1)).round_().clamp_(-127, 127))
