"""int8 by hand and by the specification's formula (section 10.2)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tcplug_quant.int8 import Int8

from truecluster.api import CheckpointError, PluginError


def test_bytes_by_hand():
    """max|row| / 127 is 1 and 0.5: the codes are the values, and twice the values; a zero row has scale 0."""
    packed = Int8().pack(torch.tensor([[127.0, -3.0, 0.4], [1.0, -63.5, 0.26], [0.0, 0.0, 0.0]]))
    codes, scale = packed.data[:9].view(torch.int8).tolist(), packed.data[64:].view(torch.float32).tolist()
    assert codes == [127, -3, 0, 2, -127, 1, 0, 0, 0]
    assert scale == [1.0, 0.5, 0.0]
    assert packed.data.numel() == 64 + 3 * 4
    assert not packed.data[9:64].any()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 300), st.integers(0, 2**31), st.sampled_from([1e-30, 1e-3, 1.0, 1e30]))
def test_the_specifications_formula(out, width, seed, size):
    weight = torch.randn(out, width, generator=torch.Generator().manual_seed(seed)) * size
    scale = weight.abs().amax(1, keepdim=True) / 127
    expected = (weight / scale).round().clamp(-127, 127).to(torch.int8).float() * scale
    assert torch.equal(Int8().unpack(Int8().pack(weight)), expected)


def test_a_vector_is_refused():
    with pytest.raises(PluginError, match=r"int8 holds matrices, not a tensor of shape \(6,\)"):
        Int8().pack(torch.ones(6))


def test_an_int_names_one_row():
    packed = Int8().pack(torch.tensor([[127.0, 0.0], [0.0, -127.0]]))
    assert Int8().rows(packed, 1).tolist() == [[0.0, -127.0]]


def test_what_would_come_back_infinite_is_refused():
    """fp32 ends at 3.4028e38; 127 times a scale that was rounded up would lie beyond."""
    largest = torch.finfo(torch.float32).max
    with pytest.raises(CheckpointError, match=r"1 of 2 values are too large for int8 \(largest 3\.40282e\+38\).*fp32"):
        Int8().pack(torch.tensor([[1.0, -largest]]))
    assert Int8().unpack(Int8().pack(torch.tensor([[3.39e38]]))).isfinite().all()
