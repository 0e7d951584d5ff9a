"""Blocks of 32 elements with one fp16 scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0."""

from __future__ import annotations

import torch

from .bits import fields, half, nibbles, signed


def q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, 32 signed bytes."""
    return signed(blocks[:, 2:]) * half(blocks, 0)


def q4_0(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, 32 nibbles around 8."""
    return (nibbles(blocks[:, 2:], 16).float() - 8) * half(blocks, 0)


def q4_1(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, minimum, 32 nibbles."""
    return nibbles(blocks[:, 4:], 16).float() * half(blocks, 0) + half(blocks, 2)


def q5_0(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, 32 fifth bits, 32 nibbles, around 16."""
    return (_five_bits(blocks[:, 2:]) - 16) * half(blocks, 0)


def q5_1(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, minimum, 32 fifth bits, 32 nibbles."""
    return _five_bits(blocks[:, 4:]) * half(blocks, 0) + half(blocks, 2)


def _five_bits(quants: torch.Tensor) -> torch.Tensor:
    """Bit ``i`` of the first four bytes belongs to element ``i``."""
    return (nibbles(quants[:, 4:], 16) | fields(quants[:, :4], 8, 1, 1) << 4).float()
