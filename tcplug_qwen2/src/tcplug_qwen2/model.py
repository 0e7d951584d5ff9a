"""Qwen2 and Qwen2.5: pre-norm decoder, grouped-query attention with biased q/k/v, SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster import api, nn


@attrs.frozen(kw_only=True)
class Qwen2Config(nn.DecoderConfig):
    """``sliding[i]`` is the attention window of layer i in tokens, ``None`` for full attention."""

    qkv_bias: bool
    sliding: tuple[int | None, ...]


FULL, SLIDING = "full_attention", "sliding_attention"


def sliding_windows(raw: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """The layers that ``layer_types`` names slide, else those from ``max_window_layers`` on; without
    ``use_sliding_window`` none does. Where that is set, a window must be named.
    """
    if not nn.flag(raw, "use_sliding_window"):
        return (None,) * layers
    window = nn.positive(raw, "sliding_window")
    kinds = raw.get("layer_types") or _habit(raw, layers)
    if len(kinds) != layers:
        raise api.CheckpointError(f"config: layer_types has {len(kinds)} entries for {layers} layers")
    return tuple(window if kind == SLIDING else None for kind in kinds)


def _habit(raw: Mapping[str, Any], layers: int) -> list[str]:
    full = 0 if raw.get("max_window_layers") == 0 else nn.positive(raw, "max_window_layers", 28)
    return [FULL if i < full else SLIDING for i in range(layers)]


class Qwen2(api.Architecture):
    """Also hosts llama checkpoints: the same network without biases."""

    dialects = (
        api.Dialect(
            container="huggingface",
            model_type="qwen2",
            slots=nn.HUGGINGFACE_SLOTS,
            defaults={"qkv_bias": True, "max_position_embeddings": 32768},
        ),
        nn.gguf_dialect(
            "qwen2",
            keys={"attention.sliding_window": "sliding_window"},
            implied={"qwen2.attention.sliding_window": {"use_sliding_window": True, "max_window_layers": 0}},
            defaults={"qkv_bias": True},
        ),
        api.Dialect(
            container="huggingface",
            model_type="llama",
            slots=nn.HUGGINGFACE_SLOTS,
            defaults={"max_position_embeddings": 2048},
            ignored=("model.layers.*.self_attn.rotary_emb.inv_freq",),
        ),
        nn.gguf_dialect("llama", rotated_pairs=True),
    )

    def config(self, raw: Mapping[str, Any]) -> Qwen2Config:
        fields = nn.decoder_fields(raw, layer_types=(FULL, SLIDING))
        windows = sliding_windows(raw, fields["layers"])
        return Qwen2Config(**fields, qkv_bias=nn.flag(raw, "qkv_bias"), sliding=windows)

    def build(self, config: Qwen2Config, part: api.Part) -> api.Description:
        if isinstance(part, api.Embed):
            return nn.decoder_embedding(config)
        if isinstance(part, api.Head):
            return nn.decoder_head(config)
        block = str(part)
        return nn.DecoderBlock(
            attention_norm=nn.decoder_norm(config, f"{block}.attention_norm"),
            attention=nn.decoder_attention(config, block, qkv_bias=config.qkv_bias),
            mlp_norm=nn.decoder_norm(config, f"{block}.mlp_norm"),
            mlp=nn.decoder_mlp(config, block),
        )

    def rotary(self, config: Qwen2Config, layer: int) -> api.Rotary:
        return config.rope

    def state(self, config: Qwen2Config, layer: int) -> api.Paged:
        per_token = (config.kv_heads, config.head_dim)
        return api.Paged({"k": per_token, "v": per_token}, sliding=config.sliding[layer])
