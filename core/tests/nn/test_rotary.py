"""Rotary positions against transformers, in fp32 throughout."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from truecluster.api import CheckpointError, Rotary
from truecluster.nn import attention_factor, inverse_frequencies, read_rotary, rotate, tables
from truecluster.nn.rotary import STRETCH, Angles

OLD = {"original_max_position_embeddings": 8192}
YARN = {"factor": 4.0, **OLD}
RULES = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **OLD},
    "yarn": {"rope_type": "yarn", **YARN},
    "yarn, not truncated": {"rope_type": "yarn", **YARN, "truncate": False},
    "yarn, its own factor": {"rope_type": "yarn", **YARN, "attention_factor": 0.8},
    "yarn, two mscales": {"rope_type": "yarn", **YARN, "mscale": 0.7, "mscale_all_dim": 1.0},
    "yarn, its own bounds": {"rope_type": "yarn", **YARN, "beta_fast": 20, "beta_slow": 2},
    "yarn, hardly trained": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64},
}
LAST = 32767


def config(rule: str, theta: float) -> LlamaConfig:
    size = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": LAST + 1}
    return LlamaConfig(**size, rope_parameters={"rope_theta": theta, **RULES[rule]})


def spellings(rule: str, theta: float) -> list[dict[str, object]]:
    """transformers 5's way, and two older ones."""
    numbers = {key: value for key, value in RULES[rule].items() if key != "rope_type"}
    kind = RULES[rule]["rope_type"]
    return [
        {"rope_parameters": {"rope_theta": theta, **RULES[rule]}, "rope_scaling": None},
        {"rope_theta": theta, "rope_scaling": RULES[rule]},
        {"rope_theta": theta, "rope_scaling": {"type": kind, **numbers, "attention_factor": None} | numbers},
    ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_rules_are_transformers_at_near_and_far_positions(rule, theta):
    """Frequencies, then rotated heads within 1e-4 at positions 0, 1, 4095 and the last (LOAD-07: every spelling)."""
    theirs = LlamaRotaryEmbedding(config(rule, theta))
    positions = torch.tensor([0, 1, 4095, LAST])
    q = torch.randn(len(positions), 4, 64, generator=torch.Generator().manual_seed(0))
    cos, sin = theirs(q, positions[None])
    expected, _ = apply_rotary_pos_emb(q.transpose(0, 1)[None], q.transpose(0, 1)[None], cos, sin)
    for raw in spellings(rule, theta):
        rotary = read_rotary({"max_position_embeddings": LAST + 1, **raw}, 64)
        frequencies = inverse_frequencies(rotary)
        torch.testing.assert_close(frequencies, theirs.inv_freq, rtol=1e-6, atol=0)
        found = rotate(q, *tables(frequencies, positions, attention_factor(rotary)))
        torch.testing.assert_close(found, expected[0].transpose(0, 1), rtol=0, atol=1e-4)


def test_yarns_attention_factor_by_hand():
    """``0.1 ln 4 + 1``, as section 3.4 of Peng et al. 2023 has it."""
    rotary = read_rotary({"rope_scaling": {"type": "yarn", **YARN}}, 64)
    assert attention_factor(rotary) == pytest.approx(1.1386294361119891)
    cos, sin = tables(inverse_frequencies(rotary), torch.tensor([0]), attention_factor(rotary))
    assert cos[0].tolist() == pytest.approx([1.1386294361119891] * 32)
    assert sin[0].tolist() == [0.0] * 32


@pytest.mark.parametrize("kind", ["llama3", "yarn"])
def test_the_trained_context_is_the_configs_own_first_and_its_context_last(kind):
    numbers = {key: value for key, value in RULES[kind].items() if key not in OLD}
    trained = {**config(kind, 1e4).to_dict(), "rope_parameters": numbers, "max_position_embeddings": 512}
    for raw, expected in ((trained, 512), ({**trained, "original_max_position_embeddings": 64}, 64)):
        theirs = LlamaRotaryEmbedding(LlamaConfig(**raw))
        rotary = read_rotary(raw, 64)
        assert dict(rotary.parameters)["original_max_position_embeddings"] == expected
        torch.testing.assert_close(inverse_frequencies(rotary), theirs.inv_freq, rtol=1e-6, atol=0)


def test_theta_defaults_to_transformers():
    """LOAD-07 (c)."""
    assert read_rotary({}, 64) == Rotary(64, 10000.0)
    assert read_rotary({"rope_parameters": {"rope_type": "default"}, "rope_theta": 77}, 64) == Rotary(64, 77.0)


def test_factors_divide_each_frequency():
    """GGUF keeps what Llama 3's rule made of each frequency."""
    llama3 = read_rotary({"rope_scaling": RULES["llama3"]}, 64)
    plain = inverse_frequencies(Rotary(64, 10000.0))
    factors = (plain / inverse_frequencies(llama3)).tolist()
    rotary = read_rotary({"rope_scaling": {"rope_type": "factors", "factors": factors}}, 64)
    torch.testing.assert_close(inverse_frequencies(rotary), inverse_frequencies(llama3), rtol=1e-6, atol=0)
    with pytest.raises(CheckpointError, match="3 factors for 32"):
        read_rotary({"rope_scaling": {"rope_type": "factors", "factors": [1.0, 2.0, 3.0]}}, 64)


def test_old_keys_without_effect_are_taken():
    raw = {"rope_scaling": {"type": "linear", "factor": 2, "finetuned": True, **OLD}}
    assert read_rotary(raw, 8) == Rotary(8, 10000.0, "linear", (("factor", 2.0),))


@pytest.mark.parametrize("kind", ["dynamic", "longrope", "su", "mrope", "proportional"])
def test_other_rules_are_refused_by_name(kind):
    with pytest.raises(CheckpointError, match=rf"'{kind}' is not supported; supported: default, .* use a model with"):
        read_rotary({"rope_scaling": {"type": kind, "factor": 2.0}}, 8)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"rope_theta": 0}, "rope_theta must be a positive number, not 0"),
        ({"rope_theta": 10**400}, "rope_theta must be a positive number"),
        ({"rope_theta": float("nan")}, "rope_theta must be a positive number"),
        ({"rope_theta": "10000"}, "rope_theta must be a positive number"),
        ({"rope_scaling": "linear"}, "rope_scaling must be an object, not 'linear'"),
        ({"rope_scaling": {"type": ["linear"]}}, "rope_type must be a text"),
        ({"rope_scaling": {"type": "linear"}}, "rope_type 'linear' needs 'factor', which the config lacks"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor must be a positive number, not 0"),
        ({"rope_scaling": {"type": "linear", "factor": [2]}}, "factor must be a positive number"),
        ({"rope_scaling": {"type": "linear", "factor": True}}, "factor must be a positive number"),
        ({"rope_scaling": {"type": "yarn", "factor": 2}}, "original_max_position_embeddings is missing"),
        ({"rope_scaling": {"factor": 2}}, "rope_type 'default' doesn't know factor; it takes no numbers"),
        ({"rope_scaling": {"type": "linear", "factor": 2, "mrope_section": [1]}}, "doesn't know mrope_section"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "of its own for full_attention"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5 is not supported"),
        ({"partial_rotary_factor": 0.25}, "partial_rotary_factor 0.25 is not supported"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2}, "rope_scaling": {"type": "linear", "factor": 4}},
            "factor is 2 in rope_parameters and 4 in rope_scaling",
        ),
        ({"rope_theta": 1.0, "rope_scaling": {"type": "yarn", **YARN}}, "makes no frequencies"),
    ],
)
def test_what_makes_no_sense_is_named(raw, words):
    with pytest.raises(CheckpointError, match=words):
        read_rotary(raw, 8)


def test_heads_that_cannot_be_halved_are_refused():
    with pytest.raises(CheckpointError, match="heads of 7 elements can't be rotated"):
        read_rotary({}, 7)


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
    with pytest.raises(CheckpointError, match=r"rope_type 'dynamic' is not supported.*take the rule out of its config"):
        inverse_frequencies(Rotary(8, 1e4, "dynamic"))
    with pytest.raises(CheckpointError, match=r"rope_type 'llama3' needs 'original_max_position_embeddings'"):
        inverse_frequencies(Rotary(8, 1e4, "llama3", (("factor", 2.0),)))


def test_angles_computed_ahead_are_those_of_each_position():
    rotary = Rotary(64, 1e4, "linear", (("factor", 3.0),))
    frequencies, factor = inverse_frequencies(rotary), attention_factor(rotary)
    angles = Angles(rotary, "cpu")
    for position in (5, 6, 5 + STRETCH - 1, 5 + STRETCH, 4, 0, 131_071):
        alone = tables(frequencies, torch.tensor([position], dtype=torch.int32), factor)
        assert all(map(torch.equal, angles.at(position), alone))
