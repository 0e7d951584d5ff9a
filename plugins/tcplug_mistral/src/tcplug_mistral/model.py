"""Mistral: pre-norm decoder, grouped-query attention over a sliding window, SwiGLU. Jiang et al. 2023."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster import api, nn


@attrs.frozen(kw_only=True)
class MistralConfig(nn.DecoderConfig):
    """``window`` is how many of the latest tokens every layer attends to, ``None`` for all."""

    window: int | None


class Mistral(api.Architecture):
    """No biases anywhere."""

    dialects = (
        api.Dialect(
            container="huggingface",
            model_type="mistral",
            slots=nn.HUGGINGFACE_SLOTS,
            defaults={"max_position_embeddings": 131072, "num_key_value_heads": 8},
        ),
    )

    def config(self, raw: Mapping[str, Any]) -> MistralConfig:
        windowed = raw.get("sliding_window") is not None
        return MistralConfig(**nn.decoder_fields(raw), window=nn.positive(raw, "sliding_window") if windowed else None)

    def build(self, config: MistralConfig, part: api.Part) -> api.Description:
        if isinstance(part, api.Embed):
            return nn.decoder_embedding(config)
        if isinstance(part, api.Head):
            return nn.decoder_head(config)
        block = str(part)
        return nn.DecoderBlock(
            attention_norm=nn.decoder_norm(config, f"{block}.attention_norm"),
            attention=nn.decoder_attention(config, block),
            mlp_norm=nn.decoder_norm(config, f"{block}.mlp_norm"),
            mlp=nn.decoder_mlp(config, block),
        )

    def rotary(self, config: MistralConfig, layer: int) -> api.Rotary:
        return config.rope

    def state(self, config: MistralConfig, layer: int) -> api.Paged:
        per_token = (config.kv_heads, config.head_dim)
        return api.Paged({"k": per_token, "v": per_token}, sliding=config.window)
