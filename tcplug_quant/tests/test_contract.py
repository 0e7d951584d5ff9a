"""The formats under the contract suite, against NumPy readers of the documented bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tcplug_quant.floats import Bf16, Fp16, Fp32
from tcplug_quant.int4 import Int4
from tcplug_quant.int8 import Int8

from truecluster.testing.format import FormatContract


class _Floats(FormatContract):
    made: type
    element: str

    @pytest.fixture
    def format(self):
        return self.made()

    def oracle(self, packed):
        elements = np.frombuffer(packed.data.numpy().tobytes(), self.element)
        return torch.from_numpy(self.widen(elements).astype(np.float32).reshape(packed.shape))

    def widen(self, elements):
        return elements


class TestFp32(_Floats):
    made, element, error = Fp32, "<f4", 0.0


class TestFp16(_Floats):
    made, element, error = Fp16, "<f2", 1e-6


class TestBf16(_Floats):
    made, element, error = Bf16, "<u2", 1e-5

    def widen(self, elements):
        return (elements.astype(np.uint32) << 16).view(np.float32)


class TestInt8(FormatContract):
    vectors, error = False, 1e-3

    @pytest.fixture
    def format(self):
        return Int8()

    def oracle(self, packed):
        out, width = packed.shape
        raw = packed.data.numpy().tobytes()
        codes = np.frombuffer(raw, "i1", out * width).reshape(out, width)
        scale = np.frombuffer(raw, "<f4", out, offset=math.ceil(out * width / 64) * 64)
        return torch.from_numpy(codes.astype(np.float32) * scale[:, None])


class _Int4(FormatContract):
    vectors, error = False, 2e-2
    group: int
    symmetric: bool

    @pytest.fixture
    def format(self):
        return Int4(self.group, self.symmetric)

    def oracle(self, packed):
        """Element by element, as the layout is written down."""
        out, width = packed.shape
        raw = packed.data.numpy().tobytes()
        blocks, groups = math.ceil(width / 32), math.ceil(width / self.group)
        scales_at = math.ceil(out * blocks * 16 / 64) * 64
        scale = np.frombuffer(raw, "<f2", out * groups, offset=scales_at)
        if not self.symmetric:
            minimum = np.frombuffer(
                raw, "<f2", out * groups, offset=math.ceil((scales_at + out * groups * 2) / 64) * 64
            )
        whole = np.zeros((out, width), np.float32)
        for row in range(out):
            for column in range(width):
                block, inside = divmod(column, 32)
                byte = raw[(row * blocks + block) * 16 + inside % 16]
                code = byte & 15 if inside < 16 else byte >> 4
                at = row * groups + column // self.group
                low = -8 * np.float32(scale[at]) if self.symmetric else np.float32(minimum[at])
                whole[row, column] = code * np.float32(scale[at]) + low
        return torch.from_numpy(whole)


class TestInt4Group32Asymmetric(_Int4):
    group, symmetric = 32, False


class TestInt4Group64Asymmetric(_Int4):
    group, symmetric = 64, False


class TestInt4Group128Asymmetric(_Int4):
    group, symmetric = 128, False


class TestInt4Group32Symmetric(_Int4):
    group, symmetric = 32, True


class TestInt4Group64Symmetric(_Int4):
    group, symmetric = 64, True


class TestInt4Group128Symmetric(_Int4):
    group, symmetric = 128, True
