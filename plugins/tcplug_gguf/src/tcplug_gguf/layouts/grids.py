"""Points of lattices that the IQ1, IQ2 and IQ3 blocks name by number.

``grids.bin`` holds which value each coordinate of each point has, one grid after the other, in 2 or 4 bits, lowest
first. The points are ggml's own choice (``iq2xxs_grid`` and its siblings in ``ggml-common.h``, MIT) and follow no
rule, so they are data; the tests hold them to the gguf package.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import attrs
import torch


@attrs.frozen
class Grid:
    """``points × width`` coordinates out of ``values``."""

    points: int
    width: int
    values: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Of one coordinate in the file."""
        return 2 if len(self.values) < 4 else 4

    @property
    def nbytes(self) -> int:
        """Of the whole grid in the file."""
        return self.points * self.width * self.bits // 8


_POSITIVE, _ODD = (8, 25, 43), tuple(range(1, 16, 2))

GRIDS = {
    "iq2_xxs": Grid(256, 8, _POSITIVE),
    "iq2_xs": Grid(512, 8, _POSITIVE),
    "iq2_s": Grid(1024, 8, _POSITIVE),
    "iq3_xxs": Grid(256, 4, (4, 12, 20, 28, 36, 44, 52, 62)),
    "iq3_s": Grid(512, 4, _ODD),
    "iq1": Grid(2048, 8, (-1, 0, 1)),
}
"""In the order of the file."""


@cache
def grid(name: str, device: torch.device) -> torch.Tensor:
    """``[points, width]`` fp32."""
    names, grid = list(GRIDS), GRIDS[name]
    start = sum(GRIDS[other].nbytes for other in names[: names.index(name)])
    raw = torch.frombuffer(bytearray(_data()[start : start + grid.nbytes]), dtype=torch.uint8)
    shifts = torch.arange(0, 8, grid.bits, dtype=torch.uint8)
    index = raw[:, None] >> shifts & ((1 << grid.bits) - 1)
    values = torch.tensor(grid.values, dtype=torch.float32)
    return values[index.int()].view(grid.points, grid.width).to(device)


@cache
def even_signs(device: torch.device) -> torch.Tensor:
    """``[128, 8]`` fp32 of ±1: seven signs by the bits of a number, the eighth so that an even number is negative."""
    bits = torch.arange(128)[:, None] >> torch.arange(7) & 1
    return 1 - 2 * torch.cat((bits, bits.sum(1, keepdim=True) & 1), 1).float().to(device)


@cache
def _data() -> bytes:
    data = files(__package__).joinpath("grids.bin").read_bytes()
    assert len(data) == sum(grid.nbytes for grid in GRIDS.values()), "grids.bin isn't what this package came with"
    return data
