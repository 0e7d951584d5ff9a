"""Blocks of nibbles that stand for values of a table: IQ4_NL, IQ4_XS, MXFP4 and NVFP4."""

from __future__ import annotations

import torch

from .bits import half, nibbles, scaled, shifted, words16

_NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""``kvalues_iq4nl`` of ggml."""
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the 4-bit floats of the OCP Microscaling Formats specification 1.0; scales are halved instead."""


def iq4_nl(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, 32 nibbles."""
    return _looked_up(_NONLINEAR, nibbles(blocks[:, 2:], 16)) * half(blocks, 0)


def iq4_xs(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, upper pairs of bits and then low nibbles of eight scales around 32, 8 × 32 nibbles."""
    upper = shifted(words16(blocks[:, 2:4]), range(0, 16, 2), 3)
    scales = (nibbles(blocks[:, 4:8], 1) | upper << 4).float() - 32
    return scaled(_looked_up(_NONLINEAR, nibbles(blocks[:, 8:], 16)), scales * half(blocks, 0))


def mxfp4(blocks: torch.Tensor) -> torch.Tensor:
    """A power of two in a byte, 32 nibbles."""
    exponents = blocks[:, :1].int()
    bits = torch.where(exponents < 2, 0x200000 << exponents, exponents - 1 << 23)
    return _looked_up(_E2M1, nibbles(blocks[:, 1:], 16)) * bits.view(torch.float32)


def nvfp4(blocks: torch.Tensor) -> torch.Tensor:
    """Four unsigned floats of 4 exponent and 3 mantissa bits, 4 × 16 nibbles."""
    return scaled(_looked_up(_E2M1, nibbles(blocks[:, 4:], 8)), _e4m3(blocks[:, :4]))


def _e4m3(raw: torch.Tensor) -> torch.Tensor:
    """Half of each number; 0x7F, which is no number, counts as zero."""
    exponents, mantissas = (raw >> 3 & 15).float(), (raw & 7).float()
    normal = (1 + mantissas / 8) * torch.exp2(exponents - 8)
    return torch.where(exponents == 0, mantissas * 2**-10, normal) * (raw != 0x7F)


def _looked_up(table: tuple[int, ...], index: torch.Tensor) -> torch.Tensor:
    return torch.tensor(table, dtype=torch.float32, device=index.device)[index.int()]
