"""Superblocks of 256 elements made of points of a grid: the IQ1, IQ2 and IQ3 families.

Groups of 4 or 8 elements are a point; its signs come from a table of 128 or from bits of their own.
"""

from __future__ import annotations

import torch

from .bits import fields, grouped, half, nibbles, scaled, shifted, words16, words32
from .grids import even_signs, grid

_SEVENS = (0, 7, 14, 21)
_THREES = (0, 3, 6, 9)


def iq2_xxs(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, then per 32 elements four bytes that name points, four times 7 bits for signs, 4 bits of scale."""
    groups = grouped(blocks[:, 2:], 8)
    words = words32(groups[:, :, 4:].flatten(1))
    signs = even_signs(blocks.device)[shifted(words, _SEVENS, 127)]
    scales = (0.5 + (words >> 28 & 15).float()) * half(blocks, 0) * 0.25
    return scaled(_points("iq2_xxs", groups[:, :, :4].flatten(1)) * signs.flatten(1), scales)


def iq2_xs(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, 32 words that name a point in 9 and its signs in 7 bits, 16 nibbles of scales."""
    words = words16(blocks[:, 2:66])
    signs = even_signs(blocks.device)[words >> 9]
    return scaled(_points("iq2_xs", words & 511) * signs.flatten(1), _quarter_scales(blocks, 66))


def iq2_s(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, low bytes of 32 points, 256 signs, the points' upper pairs of bits, 16 nibbles of scales."""
    index = blocks[:, 2:34].int() | fields(blocks[:, 66:74], 4, 2, 1).int() << 8
    return scaled(_points("iq2_s", index) * _signs(blocks[:, 34:66]), _quarter_scales(blocks, 74))


def iq3_xxs(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, 64 bytes that name points, then per 32 elements four times 7 bits for signs, 4 bits of scale."""
    words = words32(blocks[:, 66:])
    signs = even_signs(blocks.device)[shifted(words, _SEVENS, 127)]
    scales = (0.5 + (words >> 28 & 15).float()) * half(blocks, 0) * 0.5
    return scaled(_points("iq3_xxs", blocks[:, 2:66]) * signs.flatten(1), scales)


def iq3_s(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, low bytes of 64 points, their upper bits, 256 signs, 8 nibbles of scales."""
    index = blocks[:, 2:66].int() | fields(blocks[:, 66:74], 8, 1, 1).int() << 8
    scales = (1 + 2 * nibbles(blocks[:, 106:], 1).float()) * half(blocks, 0)
    return scaled(_points("iq3_s", index) * _signs(blocks[:, 74:106]), scales)


def iq1_s(blocks: torch.Tensor) -> torch.Tensor:
    """Scale, low bytes of 32 points, then per 32 elements four times 3 upper bits, 3 bits of scale, a shift's sign."""
    words = words16(blocks[:, 34:])
    index = blocks[:, 2:34].int() | shifted(words, _THREES, 7) << 8
    scales = (2 * (words >> 12 & 7) + 1).float() * half(blocks, 0)
    return scaled(_moved(_points("iq1", index), words >> 15), scales)


def iq1_m(blocks: torch.Tensor) -> torch.Tensor:
    """Low bytes of 32 points, 3 upper bits and a shift's sign of each, 16 scales of 3 bits.

    The fp16 scale of the block lies in the upper four bits of the words with the 3-bit scales, lowest first.
    """
    words, upper = words16(blocks[:, 48:]), nibbles(blocks[:, 32:48], 1).int()
    index = blocks[:, :32].int() | (upper & 7) << 8
    parts = (words >> 12) << torch.arange(0, 16, 4, dtype=torch.int32, device=blocks.device)
    scale = parts.sum(1, keepdim=True, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    scales = (2 * shifted(words, _THREES, 7) + 1).float() * scale
    return scaled(_moved(_points("iq1", index), upper >> 3), scales)


def _points(name: str, index: torch.Tensor) -> torch.Tensor:
    """The coordinates of the points that ``index [n, points]`` names: ``[n, 256]``."""
    return grid(name, index.device)[index.int()].flatten(1)


def _signs(bits: torch.Tensor) -> torch.Tensor:
    """A set bit is -1, a clear one 1."""
    return 1 - 2 * fields(bits, 8, 1, 1).float()


def _quarter_scales(blocks: torch.Tensor, start: int) -> torch.Tensor:
    return (0.5 + nibbles(blocks[:, start:], 1).float()) * half(blocks, 0) * 0.25


def _moved(values: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """Every group of ``values`` an eighth higher, or lower where ``negative [n, groups]`` is 1."""
    shift = 0.125 - 0.25 * negative.float()
    return (grouped(values, negative.shape[1]) + shift[:, :, None]).flatten(1)
