"""Names that most decoder families share, as data for dialects, and the config.json fields that they have in common.

An architecture takes what fits and writes out what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from truecluster.api import CheckpointError, DType, ModelConfig, Rotary

from .fields import choice, flag, ids, layer_types_of, mapping, number, positive
from .rope_config import read_rotary

MOST_LAYERS = 4096
MOST_HEAD_DIM = 1 << 16
_DTYPES = {"float64": DType.FP32, "float32": DType.FP32, "float16": DType.FP16, "bfloat16": DType.BF16}

HUGGINGFACE_SLOTS: Mapping[str, str] = {
    "embed.tokens": "model.embed_tokens",
    "block.*.attention_norm": "model.layers.*.input_layernorm",
    "block.*.q": "model.layers.*.self_attn.q_proj",
    "block.*.k": "model.layers.*.self_attn.k_proj",
    "block.*.v": "model.layers.*.self_attn.v_proj",
    "block.*.o": "model.layers.*.self_attn.o_proj",
    "block.*.mlp_norm": "model.layers.*.post_attention_layernorm",
    "block.*.gate": "model.layers.*.mlp.gate_proj",
    "block.*.up": "model.layers.*.mlp.up_proj",
    "block.*.down": "model.layers.*.mlp.down_proj",
    "head.norm": "model.norm",
    "head.output": "lm_head",
}


@attrs.frozen(kw_only=True)
class DecoderConfig(ModelConfig):
    """What pre-norm decoders with rotary grouped-query attention and a gated MLP have in common."""

    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float
    activation: str
    rope: Rotary

    @property
    def scale(self) -> float:
        """Of attention scores: ``head_dim ** -0.5``."""
        return float(self.head_dim**-0.5)


def decoder_fields(raw: Mapping[str, Any], layer_types: Sequence[str] = ("full_attention",)) -> dict[str, Any]:
    """The fields of a `DecoderConfig` from a config.json, with transformers' defaults.

    ``layer_types`` are the kinds of attention that the architecture has. Raises `CheckpointError` naming a field that
    is missing, of a wrong type, or asks for what isn't supported.
    """
    _refuse_unsupported(raw, layer_types)
    hidden, heads = positive(raw, "hidden_size"), positive(raw, "num_attention_heads")
    head_dim = positive(raw, "head_dim", hidden // heads, most=MOST_HEAD_DIM)
    kv_heads = positive(raw, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise CheckpointError(f"config: {heads} attention heads can't share {kv_heads} key/value heads evenly")
    return {
        "hidden": hidden,
        "layers": positive(raw, "num_hidden_layers", most=MOST_LAYERS),
        "vocab": positive(raw, "vocab_size"),
        "context": positive(raw, "max_position_embeddings"),
        "tied": flag(raw, "tie_word_embeddings"),
        "dtype": _DTYPES[choice(raw, "dtype", choice(raw, "torch_dtype", "float32", _DTYPES), _DTYPES)],
        "eos": ids(raw, "eos_token_id"),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate": positive(raw, "intermediate_size"),
        "eps": number(raw, "rms_norm_eps", 1e-6),
        "activation": choice(raw, "hidden_act", "silu", ("silu",)),
        "rope": read_rotary(raw, head_dim),
    }


def unusual_layers(raw: Mapping[str, Any]) -> list[str]:
    """The kinds of layers in a config.json, or in a GGUF's keys, that aren't plain attention with a dense MLP."""
    raw = {**raw, **mapping(raw, "text_config")}
    kinds = sorted(set(layer_types_of(raw)) - {"full_attention", "sliding_attention"})
    kinds += [f"experts ({key} = {raw[key]})" for key in raw if key.endswith(_EXPERTS) and raw[key]]
    return kinds + [f"recurrent ({key})" for key in raw if key.endswith(".ssm.state_size")]


_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", ".expert_count")


def _refuse_unsupported(raw: Mapping[str, Any], layer_types: Sequence[str]) -> None:
    unusual = sorted({*unusual_layers(raw), *layer_types_of(raw)} - set(layer_types))
    if unusual:
        raise CheckpointError(f"config: layers of type {', '.join(unusual)} are not supported")
    quantized = mapping(raw, "quantization_config")
    if quantized:
        method = quantized.get("quant_method", "unknown")
        raise CheckpointError(f"config: weights already quantized with {method!r} are not supported; use the original")
