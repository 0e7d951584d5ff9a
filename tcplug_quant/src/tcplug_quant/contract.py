"""What the contract suites can't know of the formats and recipes: members, bounds, and readers in plain NumPy."""

from __future__ import annotations

import math

import numpy as np
import torch

from truecluster.api import Packed
from truecluster.testing.format import FormatContract
from truecluster.testing.quantizer import QuantizerContract

INT4 = tuple(f"int4.g{group}.{kind}" for group in (32, 64, 128) for kind in ("asym", "sym"))


def read(packed: Packed, element: str, shape: tuple[int, ...], begin: int = 0) -> np.ndarray:
    """Elements of the bytes from ``begin`` on."""
    found = np.frombuffer(packed.data.numpy().tobytes(), element, math.prod(shape), offset=begin)
    return found.reshape(shape)


def aligned(place: int) -> int:
    """The next multiple of 64."""
    return math.ceil(place / 64) * 64


class TestFp32(FormatContract):
    offer, error = "fp32", 0.0

    def oracle(self, packed: Packed) -> torch.Tensor:
        return torch.from_numpy(read(packed, "<f4", packed.shape).copy())


class TestFp16(FormatContract):
    offer, error, negligible = "fp16", 2.0**-22, 2.0**-24

    def oracle(self, packed: Packed) -> torch.Tensor:
        return torch.from_numpy(read(packed, "<f2", packed.shape).astype(np.float32))


class TestBf16(FormatContract):
    offer, error = "bf16", 2.0**-16

    def oracle(self, packed: Packed) -> torch.Tensor:
        upper = read(packed, "<u2", packed.shape).astype(np.uint32)
        return torch.from_numpy((upper << 16).view(np.float32))


class TestInt8(FormatContract):
    offer, vectors, error = "int8", False, 1e-3

    def oracle(self, packed: Packed) -> torch.Tensor:
        codes = read(packed, "i1", packed.shape)
        scale = read(packed, "<f4", (packed.shape[0], 1), aligned(codes.size))
        return torch.from_numpy(codes.astype(np.float32) * scale)


class TestInt4(FormatContract):
    offer, members, vectors, error, negligible = "int4", INT4, False, 3e-2, 1e-6

    def oracle(self, packed: Packed) -> torch.Tensor:
        """Nibble by nibble, as the layout is written down."""
        (out, width), (_, group, kind) = packed.shape, packed.format.split(".")
        blocks, size = math.ceil(width / 32), int(group[1:])
        per_group = (out, math.ceil(width / size))
        pairs = read(packed, "u1", (out, blocks, 16))
        codes = np.concatenate([pairs & 15, pairs >> 4], axis=2).reshape(out, blocks * 32)[:, :width]
        scales_at = aligned(pairs.size)
        scale = read(packed, "<f2", per_group, scales_at).astype(np.float32)
        low = -8 * scale
        if kind == "asym":
            low = read(packed, "<f2", per_group, aligned(scales_at + 2 * scale.size)).astype(np.float32)
        group_of = np.arange(width) // size
        return torch.from_numpy(codes * scale[:, group_of] + low[:, group_of])


class TestRecipeFp32(QuantizerContract):
    offer = "fp32"


class TestRecipeFp16(QuantizerContract):
    offer = "fp16"


class TestRecipeBf16(QuantizerContract):
    offer = "bf16"


class TestRecipeInt8(QuantizerContract):
    offer = "int8"


class TestRecipeInt4(QuantizerContract):
    offer = "int4"


class TestRecipesInt4(QuantizerContract):
    offer, members = "int4.*", (*INT4, "int4.g128")
