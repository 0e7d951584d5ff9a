"""int4 by hand, against its bounds, and against Q4_0 of the gguf package."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gguf
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from tcplug_quant.int4 import Int4

from truecluster.api import CheckpointError, PluginError

Q4_0 = gguf.GGMLQuantizationType.Q4_0


def test_asymmetric_bytes_by_hand():
    """At scale 1 and minimum 0 codes are values; element j + 16 shares the byte of j; 0 fills the second block."""
    values = torch.cat([torch.arange(16.0), torch.arange(16.0), torch.tensor([15.0, 0.0, 3.0])])[None]
    packed = Int4(32, symmetric=False).pack(values)
    assert packed.data[:16].tolist() == [j | j << 4 for j in range(16)]
    assert packed.data[16:32].tolist() == [15, 0, 3, *[0] * 13]
    assert packed.data[64:68].view(torch.float16).tolist() == [1.0, 1.0]
    assert packed.data[128:].view(torch.float16).tolist() == [0.0, 0.0]
    assert torch.equal(Int4(32, symmetric=False).unpack(packed), values)


def test_symmetric_bytes_by_hand():
    """-8..7 at scale 1: code is value + 8. A lone 1 is code 0 at scale -1/8; codes that only fill its block are 8."""
    values = torch.cat([torch.arange(-8.0, 8.0), torch.arange(-8.0, 8.0), torch.ones(1)])[None]
    packed = Int4(32, symmetric=True).pack(values)
    assert packed.data[:16].tolist() == [(j | j << 4) for j in range(16)]
    assert packed.data[16:32].tolist() == [0 | 8 << 4, *[8 | 8 << 4] * 15]
    assert packed.data[64:].view(torch.float16).tolist() == [1.0, -0.125]
    assert torch.equal(Int4(32, True).unpack(packed), values)


def test_wire_bytes_by_hand():
    """Qwen2.5-0.5B's gate, 4864 x 896, in groups of 32: 28 blocks of 16 bytes and 28 groups of 2 + 2 bytes a row."""
    assert Int4(32, False).wire_bytes((4864, 896)) == 4864 * 28 * (16 + 2 + 2)
    assert Int4(128, True).wire_bytes((4864, 896)) == 4864 * (28 * 16 + 7 * 2)
    assert Int4(128, False).wire_bytes((1, 129)) == 128 + 64 + 4


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([32, 64, 128]), st.booleans(), st.integers(1, 5), st.integers(1, 300), st.integers(0, 2**31))
def test_no_error_exceeds_that_of_the_whole_range(group, symmetric, out, width, seed):
    """Rounding over the whole range errs by at most half a step; a grid with less squared error is as good."""
    weight = torch.randn(out, width, generator=torch.Generator().manual_seed(seed))
    format = Int4(group, symmetric)
    packed = format.pack(weight)
    assert packed.data.numel() == format.wire_bytes((out, width))
    for start in range(0, width, group):
        part, found = weight[:, start : start + group], format.unpack(packed)[:, start : start + group]
        step = (part.amax(1) - part.amin(1)) / 15 if not symmetric else part.abs().amax(1) / 8
        step = step + 2e-3 * part.abs().amax(1)  # fp16 scales
        worst = 1.0 if symmetric else 0.5  # symmetric: the other end may be a step short
        rounding = (step * worst).square() * part.shape[1]
        assert ((found - part).square().sum(1) <= rounding).all()


def error_against_q4_0(weight: torch.Tensor, group: int, symmetric: bool) -> float:
    """Ratio of squared errors."""
    theirs = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), Q4_0), Q4_0))
    format = Int4(group, symmetric)
    ours = format.unpack(format.pack(weight))
    return float((ours - weight).square().sum() / (theirs - weight).square().sum())


@pytest.mark.parametrize(("group", "symmetric"), [(32, False), (64, False), (32, True)])
def test_normal_weights_err_less_than_with_q4_0(group, symmetric):
    weight = torch.randn(256, 1024, generator=torch.Generator().manual_seed(3)) * 0.02
    assert error_against_q4_0(weight, group, symmetric) < 1


@pytest.mark.parametrize(
    ("group", "symmetric", "published"), [(32, False, 0.59), (32, True, 0.77), (128, False, 0.96), (128, True, 1.17)]
)
def test_real_weights_err_no_more_than_a_careful_search(group, symmetric, published):
    """Mean over matrices of one block; bounds from measurements made with another implementation."""
    folder = Path(os.environ.get("TRUECLUSTER_MODELS", "/nonexistent")) / "qwen2.5-coder-0.5b-instruct"
    if not folder.is_dir():
        pytest.skip("TRUECLUSTER_MODELS doesn't hold qwen2.5-coder-0.5b-instruct")
    names = [f"model.layers.3.{name}.weight" for name in ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj")]
    ratios = [error_against_q4_0(read(folder, name).float(), group, symmetric) for name in names]
    assert sum(ratios) / len(ratios) <= published * 1.03


def read(folder: Path, name: str) -> torch.Tensor:
    shard = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"][name]
    with safe_open(folder / shard, "pt") as file:
        return file.get_tensor(name)


def test_constant_and_tiny_groups():
    for value in (0.0, 1.0, -3.5, 1e-9):
        weight = torch.full((2, 50), value)
        found = Int4(32, False).unpack(Int4(32, False).pack(weight))
        torch.testing.assert_close(found, weight, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("symmetric", [False, True])
def test_values_beyond_fp16_scales_are_refused(symmetric):
    weight = torch.ones(4, 64)
    weight[1, 3], weight[2, 7] = 1e6, -2e6
    with pytest.raises(CheckpointError, match=r"2 of 256 values are too large for int4.* \(largest 2e\+06\)"):
        Int4(32, symmetric).pack(weight)


@pytest.mark.parametrize(
    ("name", "id"),
    [("int4.g32.asym", "int4.g32.asym"), ("int4.g128", "int4.g128.sym"), ("int4.g64.sym", "int4.g64.sym")],
)
def test_a_short_name_is_the_symmetric_member(name, id):
    assert Int4.from_id(name).id == id


@pytest.mark.parametrize("name", ["int4", "int4.g16", "int4.g32.asymm", "int4.g32.sym.sym", "int4.sym", "int8"])
def test_what_is_no_member_is_refused(name):
    with pytest.raises(PluginError, match=r"int4\.g32\.asym, int4\.g32\.sym, int4\.g64\.asym"):
        Int4.from_id(name)
