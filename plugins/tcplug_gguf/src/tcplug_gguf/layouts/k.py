"""Superblocks of 256 elements whose groups' scales are quantized themselves: the K family."""

from __future__ import annotations

import torch

from .bits import fields, half, nibbles, scaled, signed


def q2_k(blocks: torch.Tensor) -> torch.Tensor:
    """16 scales and minima in nibbles, 256 pairs of bits, scale and minimum of those."""
    scales = nibbles(blocks[:, :16], 16).float()
    quants = scaled(fields(blocks[:, 16:80], 4, 2, 32), scales[:, :16] * half(blocks, 80))
    minima = scales[:, 16:] * half(blocks, 82)
    return (quants.view(-1, 16, 16) - minima[:, :, None]).flatten(1)


def q3_k(blocks: torch.Tensor) -> torch.Tensor:
    """256 third bits, 256 pairs of bits, 16 scales of 6 bits around 32, scale; 4 less where the third bit is clear."""
    scales = nibbles(blocks[:, 96:104], 8) | fields(blocks[:, 104:108], 4, 2, 4) << 4
    quants = fields(blocks[:, 32:96], 4, 2, 32) | fields(blocks[:, :32], 8, 1, 32) << 2
    return scaled(quants.float() - 4, (scales.float() - 32) * half(blocks, 108))


def q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """Scale and minimum of eight 6-bit scales and minima, 8 × 32 nibbles."""
    return _with_minima(blocks, nibbles(blocks[:, 16:], 32))


def q5_k(blocks: torch.Tensor) -> torch.Tensor:
    """As `q4_k`, with a fifth bit: bit ``g`` of byte ``i`` belongs to element ``i`` of quant group ``g``."""
    return _with_minima(blocks, nibbles(blocks[:, 48:], 32) | fields(blocks[:, 16:48], 8, 1, 32) << 4)


def q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """256 low nibbles, 256 upper pairs of bits, 16 signed scales, scale, around 32."""
    quants = nibbles(blocks[:, :128], 64) | fields(blocks[:, 128:192], 4, 2, 32) << 4
    return scaled(quants.float() - 32, signed(blocks[:, 192:208]) * half(blocks, 208))


def _with_minima(blocks: torch.Tensor, quants: torch.Tensor) -> torch.Tensor:
    """The 6-bit scales and minima lie in bytes 4 to 16."""
    first, second, upper = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat((first & 63, upper & 15 | first >> 2 & 48), 1).float() * half(blocks, 0)
    minima = torch.cat((second & 63, upper >> 4 | second >> 2 & 48), 1).float() * half(blocks, 2)
    return (scaled(quants, scales).view(-1, 8, 32) - minima[:, :, None]).flatten(1)
