"""What models of the family differ in, and what the architecture must refuse."""

from __future__ import annotations

from truecluster.testing.architecture import UNSUPPORTED, ArchitectureContract, Variant

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
WITHOUT_NUMBERS = {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0}}
VARIANTS = {
    "attention biases": Variant({"attention_bias": True}),
    "mlp biases": Variant({"mlp_bias": True}),
    "llama3 frequencies": Variant({"rope_parameters": LLAMA3}),
    "yarn frequencies": Variant({"rope_parameters": YARN}),
    "linear frequencies": Variant({"rope_parameters": LINEAR}),
}
REFUSED = {
    **UNSUPPORTED,
    "frequencies that grow": (
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}},
        "dynamic",
    ),
    "frequencies without numbers": (WITHOUT_NUMBERS, "factor"),
    "sliding layers": ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
    "a bias that is a text": ({"attention_bias": "yes"}, "attention_bias must be true or false"),
}


class TestLlama(ArchitectureContract):
    offer = "llama"
    required = (*ArchitectureContract.required, "intermediate_size")
    variants = VARIANTS
    unsupported = REFUSED
