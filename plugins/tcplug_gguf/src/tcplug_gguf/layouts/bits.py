"""Numbers inside packed bytes. ``blocks`` and ``quants`` are ``[n, bytes]`` uint8; everything keeps their device."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def half(blocks: torch.Tensor, start: int) -> torch.Tensor:
    """The fp16 number at byte ``start`` → ``[n, 1]`` fp32."""
    return _aligned(blocks[:, start : start + 2]).view(torch.float16).float()


def signed(blocks: torch.Tensor) -> torch.Tensor:
    """Every byte as a signed number: ``[n, bytes]`` fp32."""
    return _aligned(blocks).view(torch.int8).float()


def words16(blocks: torch.Tensor) -> torch.Tensor:
    """Unsigned, little-endian: ``[n, bytes / 2]`` int32."""
    return blocks[:, ::2].int() | blocks[:, 1::2].int() << 8


def words32(blocks: torch.Tensor) -> torch.Tensor:
    """Little-endian: ``[n, bytes / 4]`` int32, so that a shifted word must be masked."""
    return _aligned(blocks).view(torch.int32)


def fields(quants: torch.Tensor, count: int, each: int, width: int) -> torch.Tensor:
    """``count`` fields of ``each`` bits in every byte, lowest first: ``[n, count · bytes]`` uint8.

    Of every run of ``width`` bytes the first field of each comes first, then the second of each, and so on.
    """
    shifts = torch.arange(0, count * each, each, dtype=torch.uint8, device=quants.device)
    runs = quants.reshape(quants.shape[0], quants.shape[1] // width, 1, width)
    return (runs >> shifts[:, None] & ((1 << each) - 1)).flatten(1)


def nibbles(quants: torch.Tensor, width: int) -> torch.Tensor:
    """Per ``width`` bytes, first the low and then the high halves: ``[n, 2 · bytes]`` uint8."""
    return fields(quants, 2, 4, width)


def shifted(words: torch.Tensor, shifts: Sequence[int], mask: int) -> torch.Tensor:
    """Every word shifted by each of ``shifts``, masked: ``[n, w]`` int32 → ``[n, w · len(shifts)]`` int32."""
    by = torch.tensor(shifts, dtype=torch.int32, device=words.device)
    return (words[:, :, None] >> by & mask).flatten(1)


def scaled(values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """``values [n, elements]`` times ``scales [n, groups]`` fp32, each of as many neighbours as there are."""
    return (grouped(values.float(), scales.shape[1]) * scales[:, :, None]).flatten(1)


def grouped(values: torch.Tensor, groups: int) -> torch.Tensor:
    """``[n, elements]`` → ``[n, groups, elements / groups]``."""
    return values.reshape(values.shape[0], groups, values.shape[1] // groups)


def _aligned(blocks: torch.Tensor) -> torch.Tensor:
    return blocks.clone(memory_format=torch.contiguous_format)
