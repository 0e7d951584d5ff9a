"""fp32, fp16 and bf16: overflow, shapes, sharing."""

from __future__ import annotations

import pytest
import torch
from tcplug_quant.floats import Bf16, Fp16, Fp32

from truecluster.api import CheckpointError, Packed


def test_fp16_overflow_is_counted_and_named():
    weight = torch.tensor([[1.0, 65504.0, 65519.0], [65520.0, -1e5, 0.0]])
    with pytest.raises(CheckpointError, match=r"2 of 6 values are too large for fp16 \(largest 100000\).*bf16"):
        Fp16().pack(weight)
    assert Fp16().unpack(Fp16().pack(weight[:1])).tolist() == [[1.0, 65504.0, 65504.0]]


def test_fp16_overflow_of_bf16_weights():
    with pytest.raises(CheckpointError, match="1 of 2 values"):
        Fp16().pack(torch.tensor([1e5, 2.0], dtype=torch.bfloat16))


def test_bf16_overflow_at_the_last_values_of_fp32():
    with pytest.raises(CheckpointError, match="1 of 1 values are too large for bf16"):
        Bf16().pack(torch.tensor([torch.finfo(torch.float32).max]))
    assert Bf16().unpack(Bf16().pack(torch.tensor([3.39e38]))).isfinite().all()


def test_values_that_are_not_finite_are_counted():
    with pytest.raises(CheckpointError, match="3 of 4 values are NaN or infinite"):
        Fp32().pack(torch.tensor([float("nan"), float("inf"), 1.0, float("-inf")]))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("format", [Fp32(), Fp16(), Bf16()])
def test_any_shape_is_held(format, shape):
    weight = torch.arange(float(torch.Size(shape).numel())).view(shape)
    packed = format.pack(weight)
    assert packed.data.numel() == format.wire_bytes(shape)
    assert torch.equal(format.unpack(packed), weight)


def test_an_int_names_one_row():
    packed = Bf16().pack(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert Bf16().rows(packed, 1).tolist() == [[3.0, 4.0]]


def test_what_has_the_dtype_isnt_copied():
    weight = torch.ones(4, 4, dtype=torch.bfloat16)
    assert Bf16().pack(weight).data.data_ptr() == weight.data_ptr()


def test_bytes_are_little_endian():
    assert Fp16().unpack(Packed("fp16", (2,), torch.tensor([0, 60, 0, 192], dtype=torch.uint8))).tolist() == [1.0, -2.0]
