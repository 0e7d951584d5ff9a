"""The block formats under the contract of formats, against the gguf package; and the recipe that keeps them."""

from __future__ import annotations

from functools import cache

import gguf
import numpy as np
import torch

from truecluster.api import Packed, WeightFormat
from truecluster.testing.format import FormatContract
from truecluster.testing.quantizer import QuantizerContract

TYPES = gguf.GGMLQuantizationType
BLOCKS = [kind for kind in TYPES if kind in gguf.quants._type_traits and kind != TYPES.BF16]
"""Every block type that the gguf package can unpack."""


@cache
def random_blocks(kind: gguf.GGMLQuantizationType, shape: tuple[int, ...], seed: int = 5) -> np.ndarray:
    """A tensor of ``shape`` in ``kind``, ``[rows, bytes]``: random bytes, drawn again where a value isn't finite."""
    random = np.random.default_rng(seed)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows = shape[0] if len(shape) > 1 else 1
    blocks = np.empty((rows * shape[-1] // block, size), dtype=np.uint8)
    again = np.ones(len(blocks), dtype=bool)
    while again.any():
        blocks[again] = random.integers(0, 256, (int(again.sum()), size), dtype=np.uint8)
        with np.errstate(all="ignore"):
            again = ~np.isfinite(gguf.dequantize(blocks, kind)).all(axis=1)
    return blocks.reshape(rows, shape[-1] // block * size)


def kind_of(id: str) -> gguf.GGMLQuantizationType:
    """``gguf.q4_k`` → Q4_K."""
    return gguf.GGMLQuantizationType[id.partition(".")[2].upper()]


def ids(block: int) -> tuple[str, ...]:
    """Members whose blocks have so many elements."""
    return tuple(f"gguf.{kind.name.lower()}" for kind in BLOCKS if gguf.GGML_QUANT_SIZES[kind][0] == block)


class _Blocks(FormatContract):
    offer, packs = "gguf", False

    def sample(self, format: WeightFormat, shape: tuple[int, ...]) -> Packed:
        return Packed(format.id, shape, torch.from_numpy(random_blocks(kind_of(format.id), shape).flatten()))

    def oracle(self, packed: Packed) -> torch.Tensor:
        values = np.zeros(packed.shape, np.float32)
        if packed.data.numel():
            rows = packed.data.numpy().reshape(values.size // packed.shape[-1], -1)
            values = gguf.dequantize(rows, kind_of(packed.format)).reshape(packed.shape)
        return torch.from_numpy(values)


class TestBlocksOf32(_Blocks):
    members, multiple = ids(32), 32


class TestBlocksOf64(_Blocks):
    members, multiple = ids(64), 64


class TestBlocksOf256(_Blocks):
    members, multiple = ids(256), 256


class TestNative(QuantizerContract):
    offer = "native"
