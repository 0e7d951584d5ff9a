"""Transforms of a dialect: by hand, against transformers' own inverse, and on packed blocks bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from checkpoints import packed
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from truecluster._registry import Registry
from truecluster._weights.transforms import apply, source_shape
from truecluster.api import AddConstant, Packed, RotaryRows, SliceRows, Transpose
from truecluster.testing._host import Plain

PLAIN = Plain()


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.installed()


def applied(transform, tensor: torch.Tensor, **config) -> torch.Tensor:
    return PLAIN.unpack(apply(transform, PLAIN.pack(tensor), PLAIN, config))


def rows(count: int, width: int = 32) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count))


def test_rotated_pairs_become_rotated_halves_by_hand():
    """Two heads of four rows: 0 1 | 2 3 are pairs, so 0 and 2 are first elements, 1 and 3 second ones."""
    tensor = torch.arange(8.0)[:, None]
    assert applied(RotaryRows("heads"), tensor, heads=2).flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert applied(RotaryRows("heads"), tensor.flatten(), heads=1).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


@pytest.mark.parametrize(("count", "heads"), [(64, 4), (32, 2), (96, 1), (64, 32)])
def test_rotary_rows_are_transformers_inverse_of_llama_cpp(count, heads):
    tensor = rows(count)
    theirs = LlamaTensorProcessor()._reverse_permute_weights(tensor.numpy(), heads, heads)
    assert np.array_equal(applied(RotaryRows("n"), tensor, n=heads).numpy(), theirs)


@pytest.mark.parametrize("heads", [1, 3, 6])
def test_rotary_rows_undo_what_converters_do(heads):
    """llama.cpp's convert_hf_to_gguf: ``reshape(heads, 2, dim / 2, …).swapaxes(1, 2)``."""
    tensor = rows(24).numpy()
    converted = tensor.reshape(heads, 2, 24 // heads // 2, 32).swapaxes(1, 2).reshape(24, 32)
    assert np.array_equal(applied(RotaryRows("n"), torch.from_numpy(converted.copy()), n=heads).numpy(), tensor)


KINDS = {"gguf.q8_0": gguf.GGMLQuantizationType.Q8_0, "gguf.q4_1": gguf.GGMLQuantizationType.Q4_1}


@pytest.mark.parametrize("id", ["fp32", "fp16", "bf16", "int8", "int4.g32.asym", "gguf.q8_0", "gguf.q4_1"])
def test_packed_rows_are_moved_bit_for_bit(registry, id):
    tensor, format = rows(16, 64), registry.format(id)
    blocks = (
        Packed(id, (16, 64), torch.from_numpy(gguf.quants.quantize(tensor.numpy(), KINDS[id]).flatten()))
        if id in KINDS
        else format.pack(tensor)
    )
    moved = apply(RotaryRows("n"), blocks, format, {"n": 2})
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    assert moved.format == id
    assert moved.data.numel() == blocks.data.numel()
    assert torch.equal(format.unpack(moved), format.unpack(blocks)[[*order, *(8 + i for i in order)]])
    part = apply(SliceRows(1, 3, 4), blocks, format, {})
    assert part.shape == (8, 64)
    assert part.data.numel() == format.wire_bytes((8, 64))
    assert torch.equal(format.unpack(part), format.unpack(blocks)[4:12])


def test_a_slice_is_a_share_of_the_rows():
    tensor = torch.arange(12.0).view(6, 2)
    assert torch.equal(applied(SliceRows(0, 1, 3), tensor), tensor[:2])
    assert torch.equal(applied(SliceRows(1, 3, 3), tensor), tensor[2:])
    assert torch.equal(applied(SliceRows(2, 3, 3), tensor[:, 0]), tensor[4:, 0])


def test_transposing_and_adding_are_what_they_say():
    tensor = rows(3, 5)
    assert torch.equal(applied(Transpose(), tensor), tensor.T)
    assert torch.equal(applied(AddConstant(1.0), tensor[0]), tensor[0] + 1)


def test_a_half_precision_matrix_is_transposed_without_loss(registry):
    tensor = rows(4, 6).half()
    turned = apply(Transpose(), packed(tensor), registry.format("fp16"), {})
    assert turned.shape == (6, 4)
    assert torch.equal(turned.data.view(torch.float16).view(6, 4), tensor.T)


def test_the_shape_that_a_tensor_must_have():
    assert source_shape((8, 4), ()) == (8, 4)
    assert source_shape((8, 4), (RotaryRows("n"),)) == (8, 4)
    assert source_shape((8, 4), (Transpose(),)) == (4, 8)
    assert source_shape((8, 4), (SliceRows(0, 1, 3),)) == (24, 4)
    assert source_shape((16, 4), (SliceRows(1, 3, 3),)) == (24, 4)
    assert source_shape((8, 4), (Transpose(), SliceRows(0, 1, 3))) == (4, 24)
