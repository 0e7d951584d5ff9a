"""What models of the family differ in, what the architecture must refuse, and the llama checkpoints that it hosts."""

from __future__ import annotations

from typing import Any

from truecluster.testing.architecture import UNSUPPORTED, ArchitectureContract, Variant


def default_rope(theta: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}


SLIDING = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1, "num_hidden_layers": 3}
OTHERS = ["sliding_attention", "full_attention"]
YARN = {"factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
VARIANTS = {
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
    "a window beyond the prompt": Variant({**SLIDING, "sliding_window": 71}),
    "a window that isn't used": Variant({**SLIDING, "use_sliding_window": False}),
    "no key/value heads given": Variant(
        {"num_attention_heads": 4, "num_key_value_heads": 4, "hidden_size": 24, "tie_word_embeddings": False},
        absent=("num_key_value_heads", "head_dim", "tie_word_embeddings", "dtype"),
    ),
    "no eps given": Variant(
        {"rms_norm_eps": 1e-6}, absent=("rms_norm_eps", "hidden_act", "layer_types", "use_sliding_window")
    ),
}
REFUSED = {
    **UNSUPPORTED,
    "experts by the family's word": ({"num_experts": 8}, "num_experts"),
    "frequencies for long texts": ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "longrope"),
    "a window that isn't named": (
        {"use_sliding_window": True, "sliding_window": None},
        "sliding_window is missing",
    ),
    "a window of nothing": ({**SLIDING, "sliding_window": 0}, "sliding_window must be a positive whole number"),
    "layer types for other layers": ({**SLIDING, "layer_types": OTHERS}, "layer_types has 2 entries for 3 layers"),
    "layer types that are no list": ({"layer_types": "sliding_attention"}, "layer_types must be a list"),
    "a flag that is a text": ({"use_sliding_window": "false"}, "use_sliding_window must be true or false"),
    "more layers than any model has": ({"num_hidden_layers": 10**9}, "at most 4096"),
    "another activation": ({"hidden_act": "relu"}, "relu"),
    "heads that don't divide": ({"num_attention_heads": 4, "num_key_value_heads": 3}, "key/value heads"),
}


class TestQwen2(ArchitectureContract):
    offer = model_type = "qwen2"
    required = (*ArchitectureContract.required, "intermediate_size")
    variants = VARIANTS
    unsupported = REFUSED


class TestHostedLlama(ArchitectureContract):
    """The same network without biases, by its dialect."""

    offer, model_type = "qwen2", "llama"
