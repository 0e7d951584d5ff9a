"""Slots to tensors: whatever doesn't fit is found, and named, before a weight is read."""

from __future__ import annotations

import pytest
import torch
from checkpoints import MemoryCheckpoint, Unreadable, named
from tiny_models import RAW, TinyDecoder

from truecluster import api, nn
from truecluster._weights.binding import bind, find_source, parts_of
from truecluster._weights.configuration import read_config
from truecluster.api import CheckpointError

ARCHITECTURE = TinyDecoder()


class Biased(TinyDecoder):
    """Its q, k and v have biases."""

    def build(self, config, part):
        if not isinstance(part, api.Block):
            return super().build(config, part)
        norms = {name: nn.decoder_norm(config, f"{part}.{name}") for name in ("attention_norm", "mlp_norm")}
        attention = nn.decoder_attention(config, str(part), qkv_bias=True)
        return nn.DecoderBlock(attention=attention, mlp=nn.decoder_mlp(config, str(part)), **norms)


def bound(tensors, raw=RAW, architecture=ARCHITECTURE, **more):
    return bind(Unreadable(raw, tensors, **more), architecture, "tiny")


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return named(ARCHITECTURE, RAW)


def test_every_slot_has_its_tensor(tensors):
    model = bound(tensors)
    assert set(model.slots) == set(model.sources)
    assert {source.tensor for source in model.sources.values()} == set(tensors)
    assert model.sources["block.2.q"].tensor == "model.layers.2.self_attn.q_proj.weight"
    assert model.sources["head.norm"].tensor == "model.norm.weight"
    assert model.config.layers == 3
    assert [str(part) for part in parts_of(model.config)] == ["embed", "block.0", "block.1", "block.2", "head"]


def test_a_missing_tensor_is_named(tensors):
    del tensors["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(CheckpointError, match=r"a-model: .*missing: model\.layers\.1\.mlp\.up_proj\.weight$"):
        bound(tensors)


def test_an_unknown_tensor_is_named(tensors):
    tensors["model.layers.1.self_attn.q_norm.weight"] = torch.zeros(8)
    with pytest.raises(CheckpointError, match=r"not known: model\.layers\.1\.self_attn\.q_norm\.weight"):
        bound(tensors)


def test_another_prefix_is_told_from_both_sides(tensors):
    """LOAD-03: a renamed checkpoint lists what is missing and what is there instead."""
    renamed = {f"transformer.{name}": tensor for name, tensor in tensors.items()}
    with pytest.raises(CheckpointError, match=r"missing: .* and 24 more; not known: transformer\..* and 2\d more"):
        bound(renamed)


def test_a_misshapen_tensor_is_told_with_both_shapes(tensors):
    tensors["model.layers.0.self_attn.k_proj.weight"] = torch.zeros(32, 32)
    with pytest.raises(
        CheckpointError, match=r"layers\.0\.self_attn\.k_proj\.weight is \[32, 32\], the config needs \[16, 32\]"
    ):
        bound(tensors)


def test_everything_that_is_wrong_is_told_at_once(tensors):
    del tensors["model.norm.weight"]
    tensors["extra"] = torch.zeros(1)
    tensors["lm_head.weight"] = torch.zeros(60, 32)
    with pytest.raises(CheckpointError, match=r"missing: model\.norm\.weight; not known: extra; lm_head\.weight is"):
        bound(tensors)


def test_biases_are_slots_only_where_the_architecture_has_them(tensors):
    with_bias = named(Biased(), RAW)
    assert bound(with_bias, architecture=Biased()).sources["block.0.q.bias"].tensor == (
        "model.layers.0.self_attn.q_proj.bias"
    )
    with pytest.raises(CheckpointError, match=r"not known: model\.layers\.0\.self_attn\.k_proj\.bias"):
        bound(with_bias)
    with pytest.raises(CheckpointError, match=r"missing: model\.layers\.0\.self_attn\.k_proj\.bias"):
        bound(tensors, architecture=Biased())


@pytest.mark.parametrize("said", [True, None])
def test_a_head_without_a_tensor_is_the_embedding(tensors, said):
    """LOAD-01: whether config.json says so or leaves it out."""
    del tensors["lm_head.weight"]
    model = bound(tensors, {**RAW, "tie_word_embeddings": said})
    assert model.config.tied
    assert model.raw["tie_word_embeddings"] is True
    assert "head.output" not in model.slots
    assert model.slots["embed.tokens"].role is api.Role.HEAD


def test_a_tied_head_ignores_the_copy_that_a_checkpoint_ships(tensors):
    model = bound(tensors, {**RAW, "tie_word_embeddings": True})
    assert "lm_head.weight" not in {source.tensor for source in model.sources.values()}


def test_an_untied_head_has_its_own_tensor(tensors):
    model = bound(tensors)
    assert model.sources["head.output"].tensor == "lm_head.weight"
    assert model.slots["embed.tokens"].role is api.Role.EMBEDDING


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"layer_types": ["full_attention", "linear_attention", "full_attention"]}, "linear_attention"),
        ({"num_experts": 8}, r"num_experts = 8"),
        ({"num_local_experts": 4}, r"num_local_experts = 4"),
    ],
)
def test_layers_that_are_not_supported_are_refused_before_a_weight_is_read(tensors, change, word):
    with pytest.raises(CheckpointError, match=word):
        bound(tensors, {**RAW, **change})


def test_a_dialect_that_is_missing_is_told_with_those_there_are(tensors):
    with pytest.raises(CheckpointError, match=r"no dialect for 'tiny' in a gguf container; it has huggingface/tiny"):
        bound(tensors, container="gguf")
    with pytest.raises(CheckpointError, match=r"no dialect for 'other' in a huggingface container"):
        bound(tensors, model_type="other")


DIALECT = api.Dialect(
    container="box",
    model_type="tiny",
    slots={"block.*.q": "b.*.attn_q", "head.norm": "out_norm"},
    transforms={"block.*.q": (api.RotaryRows("num_attention_heads"),)},
)


def test_a_source_carries_number_suffix_and_transforms_over():
    assert find_source(DIALECT, "block.12.q").tensor == "b.12.attn_q.weight"
    assert find_source(DIALECT, "block.12.q.bias").tensor == "b.12.attn_q.bias"
    assert find_source(DIALECT, "block.12.q.bias").transforms == (api.RotaryRows("num_attention_heads"),)
    assert find_source(DIALECT, "head.norm").tensor == "out_norm.weight"
    with pytest.raises(CheckpointError, match=r"box/tiny has no tensor for slot 'block\.\*\.gate'"):
        find_source(DIALECT, "block.3.gate")


GGUF = {
    "embedding_length": 32,
    "block_count": 3,
    "feed_forward_length": 48,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "context_length": 512,
    "rope.freq_base": 5e5,
}


class Boxed(TinyDecoder):
    """With the words of a GGUF file."""

    dialects = (
        nn.gguf_dialect("tiny", rotated_pairs=True, defaults={"hidden_act": "silu"}, ignored=("blk.*.attn_rot_embd",)),
    )


def boxed(tensors) -> dict[str, torch.Tensor]:
    words = {ours: theirs.replace("*", "{}") for ours, theirs in nn.GGUF_SLOTS.items()}
    found = {}
    for ours, theirs in nn.HUGGINGFACE_SLOTS.items():
        for number in range(3) if "*" in theirs else [""]:
            found[words[ours].format(number) + ".weight"] = tensors[theirs.replace("*", str(number)) + ".weight"]
    return found


def metadata() -> dict[str, object]:
    return {f"tiny.{key}": value for key, value in GGUF.items()} | {"tokenizer.ggml.tokens.count": 61}


def test_a_container_with_its_own_keys_becomes_a_config(tensors):
    model = bound(boxed(tensors), metadata(), Boxed(), container="gguf")
    config = model.config
    assert (config.hidden, config.layers, config.intermediate, config.vocab) == (32, 3, 48, 61)
    assert (config.heads, config.kv_heads, config.head_dim, config.context) == (4, 2, 8, 512)
    assert (config.eps, config.rope.theta, config.tied) == (1e-5, 5e5, False)
    assert model.raw["hidden_act"] == "silu"


def test_a_key_that_only_a_transform_needs_is_missed_before_a_weight_is_read(tensors):
    facts = metadata()
    del facts["tiny.attention.head_count_kv"]
    whole = boxed({**tensors, **{n: torch.zeros(32, 32) for n in tensors if "k_proj" in n or "v_proj" in n}})
    with pytest.raises(CheckpointError, match=r"num_key_value_heads is missing; the rows of blk\.0\.attn_k\.weight"):
        bound(whole, facts, Boxed(), container="gguf")


def test_tensors_that_hold_nothing_needed_are_left_alone(tensors):
    spare = {"blk.0.attn_rot_embd": torch.zeros(4)}
    bound({**boxed(tensors), **spare}, metadata(), Boxed(), container="gguf")
    with pytest.raises(CheckpointError, match=r"not known: blk\.x\.attn_rot_embd"):
        bound({**boxed(tensors), "blk.x.attn_rot_embd": torch.zeros(4)}, metadata(), Boxed(), container="gguf")


@pytest.mark.parametrize(
    "key",
    [
        *("tiny.block_count", "tiny.embedding_length", "tiny.feed_forward_length", "tiny.attention.head_count"),
        *("tiny.attention.layer_norm_rms_epsilon", "tiny.context_length", "tokenizer.ggml.tokens.count"),
    ],
)
def test_a_missing_key_is_named_as_the_container_has_it(tensors, key):
    """GGUF-07."""
    facts = {other: value for other, value in metadata().items() if other != key}
    with pytest.raises(CheckpointError, match=f"a-model: '{key}' is missing"):
        bound(boxed(tensors), facts, Boxed(), container="gguf")


@pytest.mark.parametrize("key", [key for key in metadata() if key.startswith("tiny.")])
@pytest.mark.parametrize("value", ["three", -1, [3, 3], True])
def test_a_wrong_value_is_named_as_the_container_has_it(tensors, key, value):
    """GGUF-07: also where a list stands for one number per layer."""
    with pytest.raises(CheckpointError, match=rf"a-model: config: .*is '{key}' there"):
        bound(boxed(tensors), {**metadata(), key: value}, Boxed(), container="gguf")


def test_absent_keys_have_the_defaults_of_the_gguf_specification():
    """GGUF-07: without ``head_count_kv`` there are as many as heads; llama.cpp's base is 10,000."""
    facts = {key: value for key, value in metadata().items() if "kv" not in key and "freq_base" not in key}
    raw = read_config(Boxed.dialects[0], MemoryCheckpoint(facts, {}))
    config = Boxed().config(raw)
    assert (config.kv_heads, config.head_dim, config.rope.theta) == (4, 8, 10000.0)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("tiny.attention.sliding_window", 4096, "4096 is not supported; only 0 is"),
        ("tiny.attention.sliding_window_pattern", [True], "is not supported$"),
        ("tiny.rope.scaling.attn_factor", 0.5, "0.5 is not supported; only 1.0 is"),
        ("tiny.logit_scale", 0.25, "0.25 is not supported; only 0.0 or 1.0 is"),
        ("tiny.rope.dimension_count", 4, "rotary_dim is 4; only all 8 of a head is supported"),
        ("tiny.expert_count", 8, "experts"),
    ],
)
def test_a_key_that_would_change_the_network_is_refused(tensors, key, value, said):
    with pytest.raises(CheckpointError, match=f"{said}"):
        bound(boxed(tensors), {**metadata(), key: value}, Boxed(), container="gguf")


def rope(tensors, facts, **more):
    named = {f"tiny.rope.{key}": value for key, value in facts.items()}
    return bind(
        MemoryCheckpoint({**metadata(), **named}, {**boxed(tensors), **more}, container="gguf"), Boxed(), "tiny"
    ).config.rope


def test_a_factor_scales_linearly_unless_the_type_says_otherwise(tensors):
    """As llama.cpp reads files."""
    for facts in ({"scaling.factor": 4.0}, {"scaling.type": "linear", "scaling.factor": 4.0}):
        found = rope(tensors, facts)
        assert (found.scaling, dict(found.parameters)) == ("linear", {"factor": 4.0})
    assert rope(tensors, {"scaling.type": "none"}).scaling == "default"


def test_yarn_has_the_numbers_of_its_keys(tensors):
    facts = {
        "scaling.type": "yarn",
        "scaling.factor": 4.0,
        "scaling.original_context_length": 128,
        "scaling.yarn_attn_factor": 0.5,
        "scaling.yarn_beta_fast": 16.0,
        "scaling.yarn_beta_slow": 2.0,
        "scaling.yarn_ext_factor": 1.0,
    }
    found = rope(tensors, facts)
    assert found.scaling == "yarn"
    assert dict(found.parameters) == {
        "factor": 4.0,
        "original_max_position_embeddings": 128,
        "attention_factor": 0.5,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
    }


def test_a_vector_of_factors_divides_the_frequencies(tensors):
    """What GGUF keeps of Llama 3's rule."""
    factors = torch.tensor([1.0, 1.0, 3.5, 8.0])
    found = rope(tensors, {}, **{"rope_freqs.weight": factors})
    plain = nn.inverse_frequencies(rope(tensors, {}))
    torch.testing.assert_close(nn.inverse_frequencies(found), plain / factors)


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        (torch.ones(4).half(), r"'rope_freqs.weight' is \[4\] in fp16; it must be a vector in fp32"),
        (torch.ones(2, 2), "must be a vector"),
        (torch.ones(65537), "must be a vector"),
        (torch.ones(3), "3 factors for 4 frequencies"),
        (torch.tensor([1.0, 1.0, 0.0, 1.0]), "factors must be a positive number, not 0.0"),
        (torch.tensor([1.0, 1.0, float("nan"), 1.0]), "factors must be a positive number, not nan"),
    ],
)
def test_a_vector_that_can_not_be_factors_is_refused(tensors, vector, said):
    with pytest.raises(CheckpointError, match=said):
        rope(tensors, {}, **{"rope_freqs.weight": vector})


def test_factors_beside_another_rule_are_refused(tensors):
    facts = {"scaling.type": "linear", "scaling.factor": 2.0}
    with pytest.raises(CheckpointError, match="rope_type 'linear' doesn't know factors"):
        rope(tensors, facts, **{"rope_freqs.weight": torch.ones(4)})


def test_the_recipe_of_a_bf16_model_is_bf16_unless_asked(tensors):
    from truecluster._cluster.model import default_recipe

    def recipe(change):
        return default_recipe(
            bind(MemoryCheckpoint(RAW, {n: change(n, t) for n, t in tensors.items()}), ARCHITECTURE, "")
        )

    assert recipe(lambda name, tensor: tensor.bfloat16()) == "bf16"
    assert recipe(lambda name, tensor: tensor.bfloat16() if tensor.ndim > 1 else tensor) == "bf16"
    assert recipe(lambda name, tensor: tensor.half()) == "fp16"
    assert recipe(lambda name, tensor: tensor) == "fp16"
    assert recipe(lambda name, tensor: tensor.half() if name == "lm_head.weight" else tensor.bfloat16()) == "fp16"
