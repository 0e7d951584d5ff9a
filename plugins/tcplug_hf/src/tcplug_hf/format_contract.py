"""The elements of safetensors files under the contract of formats, against their definitions in NumPy."""

from __future__ import annotations

import math

import numpy as np
import torch

from truecluster.api import Packed, WeightFormat
from truecluster.testing.format import FormatContract

BYTES = {"safetensors.f64": 8, "safetensors.f8_e4m3": 1, "safetensors.f8_e5m2": 1}


def e4m3(codes: np.ndarray) -> np.ndarray:
    """Sign, 4 bits of exponent (bias 7), 3 of fraction; all ones is no number (OCP 8-bit floating point, 5.3)."""
    exponent, fraction = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float64)
    size = np.where(exponent == 0, np.ldexp(fraction, -9), np.ldexp(8 + fraction, exponent - 10))
    size = np.where(codes & 127 == 127, np.nan, size)
    return np.where(codes > 127, -size, size)


class TestSafetensorsFormats(FormatContract):
    offer, members, packs = "safetensors", tuple(BYTES), False

    def sample(self, format: WeightFormat, shape: tuple[int, ...]) -> Packed:
        count = math.prod(shape)
        if BYTES[format.id] == 8:
            data = np.random.default_rng(count).standard_normal(count).astype("<f8").view(np.uint8)
        else:
            data = np.random.default_rng(count).integers(0, 120, count, dtype=np.uint8)
        return Packed(format.id, shape, torch.from_numpy(data))

    def oracle(self, packed: Packed) -> torch.Tensor:
        codes = packed.data.numpy()
        values = {
            "safetensors.f64": lambda: np.frombuffer(codes.tobytes(), "<f8"),
            "safetensors.f8_e4m3": lambda: e4m3(codes),
            "safetensors.f8_e5m2": lambda: (codes.astype("<u2") << 8).view("<f2"),
        }[packed.format]()
        return torch.from_numpy(values.astype(np.float32).reshape(packed.shape))
