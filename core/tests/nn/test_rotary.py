"""Rotary positions against transformers, in fp32 throughout."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from truecluster.api import CheckpointError, Rotary
from truecluster.nn import inverse_frequencies, rotate, tables

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192.0,
}
RULES = {"default": {}, "linear": {"factor": 4.0}, "llama3": LLAMA3}


def theirs(scaling: str, dim: int = 64, theta: float = 5e5) -> LlamaRotaryEmbedding:
    rope = {"rope_type": scaling, "rope_theta": theta, **RULES[scaling]}
    size = {"hidden_size": 4 * dim, "num_attention_heads": 4, "max_position_embeddings": 131072}
    return LlamaRotaryEmbedding(LlamaConfig(**size, rope_parameters=rope))


def ours(scaling: str, dim: int = 64, theta: float = 5e5) -> Rotary:
    return Rotary(dim, theta, scaling, tuple(sorted(RULES[scaling].items())))


@pytest.mark.parametrize("scaling", RULES)
@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_frequencies_are_transformers(scaling, theta):
    torch.testing.assert_close(
        inverse_frequencies(ours(scaling, theta=theta)), theirs(scaling, theta=theta).inv_freq, rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("scaling", RULES)
def test_rotated_heads_are_transformers_at_far_positions(scaling):
    positions = torch.tensor([0, 1, 4095, 16000, 16001, 100_003])
    q = torch.randn(len(positions), 4, 64, generator=torch.Generator().manual_seed(0))
    cos, sin = theirs(scaling)(q, positions[None])
    expected, _ = apply_rotary_pos_emb(q.transpose(0, 1)[None], q.transpose(0, 1)[None], cos, sin)
    found = rotate(q, *tables(inverse_frequencies(ours(scaling)), positions))
    torch.testing.assert_close(found, expected[0].transpose(0, 1), rtol=1e-5, atol=1e-5)


def test_tables_are_the_cosine_and_sine_of_position_times_frequency():
    """By hand in double precision; a fp32 angle of 1e5 radians is off by at most half of 2**-7."""
    rotary = Rotary(8, 10000.0)
    cos, sin = tables(inverse_frequencies(rotary), torch.tensor([3, 100_000]))
    for row, position in enumerate((3, 100_000)):
        angles = [position * 10000.0 ** (-2 * i / 8) for i in range(4)]
        bound = 1e-5 if position == 3 else 2**-8
        assert cos[row].tolist() == pytest.approx([math.cos(a) for a in angles], abs=bound)
        assert sin[row].tolist() == pytest.approx([math.sin(a) for a in angles], abs=bound)


def test_far_positions_are_not_aliased_in_half_precision_models():
    """bf16 has 1153 distinct values among the positions below 32768; ours stay 32768 (NUM-01)."""
    positions = torch.arange(32768, dtype=torch.int32)
    cos, sin = tables(inverse_frequencies(Rotary(64, 1e6)), positions)
    assert cos.dtype == sin.dtype == torch.float32
    neighbours = (cos[1:] - cos[:-1]).abs() + (sin[1:] - sin[:-1]).abs()
    assert float(neighbours[:, 0].min()) > 0.5
    half = torch.randn(len(positions), 1, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    turned = rotate(half, cos, sin)
    assert turned.dtype == torch.bfloat16
    exact = rotate(half.float(), cos, sin)
    assert float((turned.float() - exact).abs().max()) <= float(exact.abs().max()) * 2**-8


def test_elements_beyond_the_rotated_ones_are_kept():
    x = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(0))
    turned = rotate(x, *tables(inverse_frequencies(Rotary(8, 1e4)), torch.tensor([5, 6])))
    torch.testing.assert_close(turned[..., 8:], x[..., 8:])
    assert not torch.allclose(turned[..., :8], x[..., :8])


def test_a_rule_or_number_that_is_not_known_is_named():
    with pytest.raises(CheckpointError, match=r"rope_type 'yarn' is not supported; supported: default, linear, llama3"):
        inverse_frequencies(Rotary(8, 1e4, "yarn"))
    with pytest.raises(CheckpointError, match=r"rope_type 'llama3' needs 'original_max_position_embeddings'"):
        inverse_frequencies(Rotary(8, 1e4, "llama3", (("factor", 2.0),)))
