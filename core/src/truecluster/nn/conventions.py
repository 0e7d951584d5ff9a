"""Names that most decoder families share, as data for dialects, and the config.json fields that they have in common.

An architecture takes what fits and writes out what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster.api import CheckpointError, DType, ModelConfig, Rotary

from .rope_config import read_rotary

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

GGUF_SLOTS: Mapping[str, str] = {
    "embed.tokens": "token_embd",
    "block.*.attention_norm": "blk.*.attn_norm",
    "block.*.q": "blk.*.attn_q",
    "block.*.k": "blk.*.attn_k",
    "block.*.v": "blk.*.attn_v",
    "block.*.o": "blk.*.attn_output",
    "block.*.mlp_norm": "blk.*.ffn_norm",
    "block.*.gate": "blk.*.ffn_gate",
    "block.*.up": "blk.*.ffn_up",
    "block.*.down": "blk.*.ffn_down",
    "head.norm": "output_norm",
    "head.output": "output",
}

_GGUF_FAMILY_KEYS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "rope.freq_base": "rope_theta",
    "rope.scaling.type": "rope_scaling.rope_type",
    "rope.scaling.factor": "rope_scaling.factor",
    "rope.scaling.original_context_length": "rope_scaling.original_max_position_embeddings",
    "expert_count": "num_experts",
}


def gguf_keys(family: str) -> dict[str, str]:
    """GGUF metadata key → config.json key, for ``general.architecture`` = ``family``."""
    own = {f"{family}.{key}": name for key, name in _GGUF_FAMILY_KEYS.items()}
    shared = {"general.architecture": "model_type", "tokenizer.ggml.eos_token_id": "eos_token_id"}
    return own | shared | {"tokenizer.ggml.tokens.count": "vocab_size"}


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


def decoder_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `DecoderConfig` from a config.json, with transformers' defaults.

    Raises `CheckpointError` naming a field that is missing, of a wrong type, or asks for what isn't supported.
    """
    _refuse_unsupported(raw)
    hidden, heads = _positive(raw, "hidden_size"), _positive(raw, "num_attention_heads")
    head_dim = _positive(raw, "head_dim", hidden // heads)
    kv_heads = _positive(raw, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise CheckpointError(f"config: {heads} attention heads can't share {kv_heads} key/value heads evenly")
    eos = raw.get("eos_token_id")
    return {
        "hidden": hidden,
        "layers": _positive(raw, "num_hidden_layers"),
        "vocab": _positive(raw, "vocab_size"),
        "context": _positive(raw, "max_position_embeddings"),
        "tied": bool(raw.get("tie_word_embeddings", False)),
        "dtype": _dtype(raw),
        "eos": tuple(eos) if isinstance(eos, list) else () if eos is None else (eos,),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate": _positive(raw, "intermediate_size"),
        "eps": _number(raw, "rms_norm_eps", 1e-6),
        "activation": _activation(raw),
        "rope": read_rotary(raw, head_dim),
    }


def unusual_layers(raw: Mapping[str, Any]) -> list[str]:
    """The kinds of layers in a config.json, or in a GGUF's keys, that aren't plain attention with a dense MLP."""
    raw = {**raw, **(raw.get("text_config") or {})}
    kinds = sorted(set(raw.get("layer_types") or ()) - {"full_attention", "sliding_attention"})
    kinds += [f"experts ({key} = {raw[key]})" for key in raw if key.endswith(_EXPERTS) and raw[key]]
    return kinds + [f"recurrent ({key})" for key in raw if key.endswith(".ssm.state_size")]


_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", ".expert_count")


def _refuse_unsupported(raw: Mapping[str, Any]) -> None:
    unusual = unusual_layers(raw)
    if unusual:
        raise CheckpointError(f"config: layers of type {', '.join(unusual)} are not supported")
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown")
        raise CheckpointError(f"config: weights already quantized with {method!r} are not supported; use the original")


def _positive(raw: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = raw.get(key)
    value = default if value is None else value
    if value is None:
        raise CheckpointError(f"config: {key} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"config: {key} must be a positive whole number, not {value!r}")
    return value


def _number(raw: Mapping[str, Any], key: str, default: float) -> float:
    value = raw.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise CheckpointError(f"config: {key} must be a positive number, not {value!r}")
    return float(value)


def _dtype(raw: Mapping[str, Any]) -> DType:
    names = {"float32": DType.FP32, "float16": DType.FP16, "bfloat16": DType.BF16}
    name = raw.get("dtype") or raw.get("torch_dtype") or "float32"
    if name not in names:
        raise CheckpointError(f"config: dtype {name!r} is not supported; supported: {', '.join(names)}")
    return names[name]


def _activation(raw: Mapping[str, Any]) -> str:
    name = raw.get("hidden_act") or "silu"
    if name != "silu":
        raise CheckpointError(f"config: hidden_act {name!r} is not supported; supported: silu")
    return name
