"""The block layouts of ggml, unpacked in plain torch on any device.

Each function takes ``blocks [n, bytes]`` uint8 and gives ``[n, elements]`` fp32. The order of multiplications is that
of ggml's own reference, so the results are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch


def _half(blocks: torch.Tensor, start: int) -> torch.Tensor:
    """The fp16 number at byte ``start`` → ``[n, 1]`` fp32."""
    return blocks[:, start : start + 2].clone(memory_format=torch.contiguous_format).view(torch.float16).float()


def _nibbles(quants: torch.Tensor, width: int) -> torch.Tensor:
    """Per ``width`` bytes, first the low and then the high halves: ``[n, b]`` → ``[n, 2 b]`` uint8."""
    quants = quants.reshape(quants.shape[0], quants.shape[1] // width, 1, width)
    return torch.cat((quants & 15, quants >> 4), dim=2).flatten(1)


def _bits(quants: torch.Tensor, count: int, each: int) -> torch.Tensor:
    """``count`` fields of ``each`` bits of every byte, field by field: ``[n, b]`` → ``[n, count, b]`` uint8."""
    shifts = torch.arange(0, count * each, each, dtype=torch.uint8, device=quants.device)
    return (quants[:, None] >> shifts[:, None]) & ((1 << each) - 1)


def _fifth_bits(blocks: torch.Tensor, start: int) -> torch.Tensor:
    """Bit ``i`` of the four bytes at ``start`` belongs to element ``i``: ``[n, 32]`` uint8, 0 or 1."""
    words = blocks[:, start : start + 4].clone(memory_format=torch.contiguous_format).view(torch.int32)
    return (words >> torch.arange(32, dtype=torch.int32, device=blocks.device) & 1).to(torch.uint8)


def q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """Half scale, 32 signed bytes."""
    return blocks[:, 2:].clone(memory_format=torch.contiguous_format).view(torch.int8).float() * _half(blocks, 0)


def q4_0(blocks: torch.Tensor) -> torch.Tensor:
    """Half scale, 32 nibbles around 8."""
    return (_nibbles(blocks[:, 2:], 16).float() - 8) * _half(blocks, 0)


def q4_1(blocks: torch.Tensor) -> torch.Tensor:
    """Half scale, half minimum, 32 nibbles."""
    return _nibbles(blocks[:, 4:], 16).float() * _half(blocks, 0) + _half(blocks, 2)


def q5_0(blocks: torch.Tensor) -> torch.Tensor:
    """Half scale, 32 fifth bits, 32 nibbles, around 16."""
    quants = _nibbles(blocks[:, 6:], 16) | _fifth_bits(blocks, 2) << 4
    return (quants.float() - 16) * _half(blocks, 0)


def q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """Half scale and minimum of eight 6-bit scales and minima, 8 × 32 nibbles."""
    return _scaled(blocks, _nibbles(blocks[:, 16:], 32))


def q5_k(blocks: torch.Tensor) -> torch.Tensor:
    """As `q4_k`, with a fifth bit: bit ``g`` of byte ``i`` belongs to element ``i`` of quant group ``g``."""
    fifth = _bits(blocks[:, 16:48], 8, 1).flatten(1)
    return _scaled(blocks, _nibbles(blocks[:, 48:], 32) | fifth << 4)


def q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """256 low nibbles, 256 upper pairs of bits, 16 signed scales, half scale, around 32."""
    low = _nibbles(blocks[:, :128], 64)
    high = torch.stack([_bits(blocks[:, start : start + 32], 4, 2).flatten(1) for start in (128, 160)], 1).flatten(1)
    scales = blocks[:, 192:208].clone(memory_format=torch.contiguous_format).view(torch.int8).float()
    scales = scales * _half(blocks, 208)
    quants = (low | high << 4).float() - 32
    return (quants.view(-1, 16, 16) * scales[:, :, None]).flatten(1)


def _scaled(blocks: torch.Tensor, quants: torch.Tensor) -> torch.Tensor:
    """``quants [n, 256]`` with the K family's 6-bit scales and minima in bytes 4 to 16."""
    first, second, upper = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat((first & 63, upper & 15 | first >> 2 & 48), 1).float() * _half(blocks, 0)
    minima = torch.cat((second & 63, upper >> 4 | second >> 2 & 48), 1).float() * _half(blocks, 2)
    return (quants.view(-1, 8, 32).float() * scales[:, :, None] - minima[:, :, None]).flatten(1)


UNPACK: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gguf.q8_0": q8_0,
    "gguf.q4_0": q4_0,
    "gguf.q4_1": q4_1,
    "gguf.q5_0": q5_0,
    "gguf.q4_k": q4_k,
    "gguf.q5_k": q5_k,
    "gguf.q6_k": q6_k,
}
