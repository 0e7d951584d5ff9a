"""Qwen2 under the contract suite, against transformers: random tiny models, fp32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import torch
from tcplug_qwen2.model import Qwen2
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from truecluster.testing.architecture import ArchitectureContract, Example

TINY = {
    "vocab_size": 97,
    "hidden_size": 56,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


@attrs.frozen
class Variant:
    """Changes to transformers' config, and to the config.json that we read; ``absent`` are left out of that."""

    theirs: Mapping[str, Any] = {}
    ours: Mapping[str, Any] = {}
    absent: tuple[str, ...] = ()


def default_rope(theta: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}


def heads(queries: int, keys: int) -> Variant:
    return Variant({"num_attention_heads": queries, "num_key_value_heads": keys})


SLIDING = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
OTHERS = ["sliding_attention", "full_attention"]
YARN = {"factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}


VARIANTS = {
    "untied": Variant({"tie_word_embeddings": False}),
    "tied": Variant({"tie_word_embeddings": True}),
    "1 query head per key head": heads(4, 4),
    "2 query heads per key head": heads(4, 2),
    "4 query heads per key head": heads(4, 1),
    "7 query heads per key head": heads(14, 2),
    "rope_parameters": Variant(default_rope(1e6)),
    "rope_theta": Variant(
        default_rope(1e6), {"rope_theta": 1000000.0, "rope_scaling": None}, absent=("rope_parameters",)
    ),
    "neither spelling": Variant(default_rope(1e4), absent=("rope_parameters",)),
    "yarn as Qwen2.5's page has it": Variant(
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, **YARN}},
        {"rope_theta": 1e6, "rope_scaling": {"type": "yarn", **YARN}},
        absent=("rope_parameters",),
    ),
    "linear frequencies": Variant({"rope_parameters": LINEAR}),
    "sliding from layer 1 on": Variant(SLIDING),
    "sliding, layers named by us": Variant(SLIDING, absent=("layer_types",)),
    "every layer slides": Variant({**SLIDING, "max_window_layers": 0, "sliding_window": 1}),
    "every other layer slides": Variant({**SLIDING, "layer_types": [*OTHERS, "sliding_attention"]}),
    "a window of a page": Variant({**SLIDING, "sliding_window": 32}),
    "a window that ends inside the first chunk": Variant({**SLIDING, "sliding_window": 40}),
    "a window beyond the prompt": Variant({**SLIDING, "sliding_window": 71}),
    "a window that isn't used": Variant({**SLIDING, "use_sliding_window": False}),
    "own eps": Variant({"rms_norm_eps": 1e-3}),
    "no key/value heads given": Variant(
        {"num_key_value_heads": 4}, absent=("num_key_value_heads", "head_dim", "tie_word_embeddings", "dtype")
    ),
    "no eps given": Variant(absent=("rms_norm_eps", "hidden_act", "layer_types", "use_sliding_window")),
}
REFUSED = {
    "linear attention": ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
    "experts": ({"num_experts": 8}, "num_experts"),
    "unknown frequencies": ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "longrope"),
    "a window that isn't named": ({"use_sliding_window": True, "sliding_window": None}, "sliding_window is missing"),
    "a window of nothing": ({**SLIDING, "sliding_window": 0}, "sliding_window must be a positive whole number"),
    "layer types for other layers": ({**SLIDING, "layer_types": OTHERS}, "layer_types has 2 entries for 3 layers"),
    "layer types that are no list": ({"layer_types": "sliding_attention"}, "layer_types must be a list"),
    "a flag that is a text": ({"use_sliding_window": "false"}, "use_sliding_window must be true or false"),
    "more layers than any model has": ({"num_hidden_layers": 10**9}, "at most 4096"),
    "another activation": ({"hidden_act": "relu"}, "relu"),
    "heads that don't divide": ({"num_attention_heads": 4, "num_key_value_heads": 3}, "key/value heads"),
    "quantized weights": ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
    "an unknown dtype": ({"dtype": "float8_e4m3fn"}, "float8"),
}
HOSTED = {
    "untied": Variant({"tie_word_embeddings": False}),
    "tied": Variant({"tie_word_embeddings": True}),
    "3 query heads per key head": heads(6, 2),
}


def example(network_type: type, config_type: type, variant: Variant) -> Example:
    """Weights large enough that attention isn't uniform; norms and biases that aren't 1 and 0."""
    torch.manual_seed(7)
    config = config_type(**{**TINY, **variant.theirs}, attn_implementation="eager")
    network = network_type(config).eval()
    for parameter in network.parameters():
        parameter.data.normal_(float(parameter.dim() == 1), 0.2)
    raw = {k: v for k, v in {**config.to_dict(), **variant.ours}.items() if k not in variant.absent}

    @torch.no_grad()
    def logits(ids: torch.Tensor) -> torch.Tensor:
        return network(ids[None]).logits[0]

    return Example(raw=raw, tensors=network.state_dict(), logits=logits)


class TestQwen2(ArchitectureContract):
    model_type = "qwen2"
    required = (*ArchitectureContract.required, "intermediate_size")
    variants = VARIANTS
    refused = REFUSED

    @pytest.fixture
    def architecture(self):
        return Qwen2()

    def example(self, variant):
        return example(Qwen2ForCausalLM, Qwen2Config, variant)


class TestHostedLlama(ArchitectureContract):
    """The same network without biases, by its dialect."""

    model_type = "llama"
    variants = HOSTED

    @pytest.fixture
    def architecture(self):
        return Qwen2()

    def example(self, variant):
        hidden = {"hidden_size": 48}
        return example(LlamaForCausalLM, LlamaConfig, attrs.evolve(variant, theirs={**hidden, **variant.theirs}))


def test_windows_are_of_global_layers():
    """LOAD-09: layers from ``max_window_layers`` on slide, only where ``use_sliding_window`` is set."""
    for used, expected in ((True, [None, 4, 4]), (False, [None, None, None])):
        config = Qwen2().config({**TINY, **SLIDING, "use_sliding_window": used})
        assert [Qwen2().state(config, layer).sliding for layer in range(3)] == expected


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_both_spellings_of_the_dtype(key):
    assert Qwen2().config({**TINY, key: "bfloat16"}).dtype.value == "bf16"
