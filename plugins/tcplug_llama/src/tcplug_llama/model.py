"""Llama: pre-norm decoder, grouped-query attention, SwiGLU, both with biases where a config asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster import api, nn


@attrs.frozen(kw_only=True)
class LlamaConfig(nn.DecoderConfig):
    """``attention_bias`` is on all of q, k, v and o, ``mlp_bias`` on gate, up and down."""

    attention_bias: bool
    mlp_bias: bool


class Llama(api.Architecture):
    """GGUF holds the rows of q and k as rotated pairs, and this network rotates halves."""

    dialects = (
        api.Dialect(
            container="huggingface",
            model_type="llama",
            slots=nn.HUGGINGFACE_SLOTS,
            defaults={"max_position_embeddings": 2048},
            ignored=("model.layers.*.self_attn.rotary_emb.inv_freq",),
        ),
        nn.gguf_dialect(
            "llama",
            rotated_pairs=True,
            implied={"blk.0.attn_q.bias": {"attention_bias": True}, "blk.0.ffn_up.bias": {"mlp_bias": True}},
        ),
    )

    def config(self, raw: Mapping[str, Any]) -> LlamaConfig:
        attention_bias, mlp_bias = nn.flag(raw, "attention_bias"), nn.flag(raw, "mlp_bias")
        return LlamaConfig(**nn.decoder_fields(raw), attention_bias=attention_bias, mlp_bias=mlp_bias)

    def build(self, config: LlamaConfig, part: api.Part) -> api.Description:
        if isinstance(part, api.Embed):
            return nn.decoder_embedding(config)
        if isinstance(part, api.Head):
            return nn.decoder_head(config)
        block, bias = str(part), config.attention_bias
        return nn.DecoderBlock(
            attention_norm=nn.decoder_norm(config, f"{block}.attention_norm"),
            attention=nn.decoder_attention(config, block, qkv_bias=bias, output_bias=bias),
            mlp_norm=nn.decoder_norm(config, f"{block}.mlp_norm"),
            mlp=nn.decoder_mlp(config, block, bias=config.mlp_bias),
        )

    def rotary(self, config: LlamaConfig, layer: int) -> api.Rotary:
        return config.rope

    def state(self, config: LlamaConfig, layer: int) -> api.Paged:
        per_token = (config.kv_heads, config.head_dim)
        return api.Paged({"k": per_token, "v": per_token})
