"""Superblocks of 256 elements that are -1, 0 or 1 times one fp16 scale: TQ1_0 and TQ2_0."""

from __future__ import annotations

import torch

from .bits import fields, half


def tq1_0(blocks: torch.Tensor) -> torch.Tensor:
    """Five ternary digits a byte in runs of 32 and of 16 bytes, four in the last 4 bytes, scale."""
    digits = [_digits(blocks[:, :32], 5), _digits(blocks[:, 32:48], 5), _digits(blocks[:, 48:52], 4)]
    return (torch.cat(digits, 1).float() - 1) * half(blocks, 52)


def tq2_0(blocks: torch.Tensor) -> torch.Tensor:
    """256 pairs of bits around 1, scale."""
    return (fields(blocks[:, :64], 4, 2, 32).float() - 1) * half(blocks, 64)


def _digits(quants: torch.Tensor, count: int) -> torch.Tensor:
    """A byte is a fraction of 256; each digit moves out at the top as the rest is multiplied by three."""
    powers = torch.tensor([3**i for i in range(count)], dtype=torch.uint8, device=quants.device)
    return ((quants[:, None] * powers[:, None]).int() * 3 >> 8).flatten(1)
