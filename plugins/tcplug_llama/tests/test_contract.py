"""Llama under the contract suite, against transformers: random tiny models, fp32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tcplug_llama.model import Llama
from transformers import LlamaConfig, LlamaForCausalLM

from truecluster.testing.architecture import ArchitectureContract, Example

TINY = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "tied": {"tie_word_embeddings": True},
    "untied": {"tie_word_embeddings": False},
    "attention biases": {"attention_bias": True},
    "mlp biases": {"mlp_bias": True},
    "1 query head per key head": {"num_key_value_heads": 4},
    "4 query heads per key head": {"num_key_value_heads": 1},
    "7 query heads per key head": {"hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 1},
    "own head size": {"head_dim": 16},
    "llama3 frequencies": {"rope_parameters": LLAMA3},
    "yarn frequencies": {"rope_parameters": YARN},
    "linear frequencies": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
    "own eps and base": {"rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
}
WITHOUT_NUMBERS = {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0}}
REFUSED = {
    "unknown frequencies": ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}, "dynamic"),
    "frequencies without numbers": (WITHOUT_NUMBERS, "factor"),
    "sliding layers": ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
    "a bias that is a text": ({"attention_bias": "yes"}, "attention_bias must be true or false"),
    "experts": ({"num_local_experts": 8}, "num_local_experts"),
}


class TestLlama(ArchitectureContract):
    required = (*ArchitectureContract.required, "intermediate_size")
    variants = VARIANTS
    refused = REFUSED

    @pytest.fixture
    def architecture(self) -> Llama:
        return Llama()

    def example(self, variant: Mapping[str, Any]) -> Example:
        """Weights large enough that attention isn't uniform; norms and biases that aren't 1 and 0."""
        torch.manual_seed(7)
        config = LlamaConfig(**{**TINY, **variant}, attn_implementation="eager")
        network = LlamaForCausalLM(config).eval()
        for parameter in network.parameters():
            parameter.data.normal_(float(parameter.dim() == 1), 0.2)

        @torch.no_grad()
        def logits(ids: torch.Tensor) -> torch.Tensor:
            return network(ids[None]).logits[0]

        return Example(raw=config.to_dict(), tensors=network.state_dict(), logits=logits)
