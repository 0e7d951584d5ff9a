"""The words of GGUF files that decoder families share: tensors, and keys of the GGUF specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truecluster.api import Dialect, RotaryRows

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

_REQUIRED = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "context_length": "max_position_embeddings",
}
_OPTIONAL = {
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "expert_count": "num_experts",
    "rope.dimension_count": "rotary_dim",
    "rope.freq_base": "rope_theta",
    "rope.scaling.type": "rope_scaling.rope_type",
    "rope.scaling.factor": "rope_scaling.factor",
    "rope.scaling.original_context_length": "rope_scaling.original_max_position_embeddings",
    "rope.scaling.yarn_attn_factor": "rope_scaling.attention_factor",
    "rope.scaling.yarn_beta_fast": "rope_scaling.beta_fast",
    "rope.scaling.yarn_beta_slow": "rope_scaling.beta_slow",
}
_SHARED = {
    "general.architecture": "model_type",
    "tokenizer.ggml.tokens.count": "vocab_size",
    "tokenizer.ggml.eos_token_id": "eos_token_id",
    "tensors.dtype": "dtype",
}
_FIXED: Mapping[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.scale": (0.0,),
    "attention.sliding_window": (0,),
    "attention.sliding_window_pattern": (),
    "embedding_scale": (0.0, 1.0),
    "logit_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "rope.scale_linear": (1.0,),
    "rope.scaling.attn_factor": (1.0,),
    "rope.scaling.yarn_ext_factor": (1.0,),
    "rope.scaling.yarn_log_multiplier": (0.0,),
    "use_parallel_residual": (False,),
}
FACTORS = "rope_freqs.weight"
"""What Llama 3's rule makes of each frequency: a divisor."""


def gguf_dialect(
    family: str, *, rotated_pairs: bool = False, keys: Mapping[str, str] | None = None, **more: Any
) -> Dialect:
    """The dialect for ``general.architecture`` = ``family``; ``more`` are further fields of `Dialect`.

    ``rotated_pairs`` where the family's files hold the rows of q and k as rotated pairs, and the network rotates
    halves. ``keys`` are further keys of the family, without its name, and their names in config.json.
    """
    known = {**_REQUIRED, **_OPTIONAL, **(keys or {})}
    turned = {"q": "num_attention_heads", "k": "num_key_value_heads"} if rotated_pairs else {}
    implied = {FACTORS: {"rope_scaling.rope_type": "factors"}}
    implied[f"{family}.rope.scaling.factor"] = {"rope_scaling.rope_type": "linear"}
    return Dialect(
        container="gguf",
        model_type=family,
        slots=GGUF_SLOTS,
        transforms={f"block.*.{slot}": (RotaryRows(heads),) for slot, heads in turned.items()},
        keys={**{f"{family}.{key}": name for key, name in known.items()}, **_SHARED},
        values={FACTORS: "rope_scaling.factors"},
        implied={**implied, **more.pop("implied", {})},
        required=(*(f"{family}.{key}" for key in _REQUIRED), "tokenizer.ggml.tokens.count"),
        fixed={f"{family}.{key}": values for key, values in _FIXED.items() if key not in known},
        **more,
    )
