"""Qwen2 and Qwen2.5: pre-norm decoder, grouped-query attention with biased q/k/v, SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster.api import (
    Architecture,
    Block,
    Description,
    Dialect,
    Embed,
    Paged,
    Part,
    Role,
    Rotary,
    RotaryRows,
    Slot,
)
from truecluster.nn import (
    GGUF_SLOTS,
    HUGGINGFACE_SLOTS,
    Attend,
    Attention,
    DecoderBlock,
    DecoderConfig,
    Embedding,
    GatedMLP,
    LanguageHead,
    Linear,
    Linears,
    Norm,
    decoder_fields,
    gguf_keys,
)


@attrs.frozen(kw_only=True)
class Qwen2Config(DecoderConfig):
    """``sliding[i]`` is the attention window of layer i in tokens, ``None`` for full attention."""

    qkv_bias: bool
    sliding: tuple[int | None, ...]


def sliding_windows(raw: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """The upper layers slide, from ``max_window_layers`` on, and only where ``use_sliding_window`` is set."""
    if not (raw.get("use_sliding_window") and raw.get("sliding_window")):
        return (None,) * layers
    habit = ["full_attention" if i < raw.get("max_window_layers", 28) else "sliding_attention" for i in range(layers)]
    kinds = raw.get("layer_types") or habit
    return tuple(raw["sliding_window"] if kind == "sliding_attention" else None for kind in kinds)


class Qwen2(Architecture):
    """Also hosts llama checkpoints: the same network without biases."""

    dialects = (
        Dialect(
            container="huggingface",
            model_type="qwen2",
            slots=HUGGINGFACE_SLOTS,
            defaults={"qkv_bias": True, "max_position_embeddings": 32768},
        ),
        Dialect(
            container="gguf",
            model_type="qwen2",
            slots=GGUF_SLOTS,
            keys=gguf_keys("qwen2"),
            defaults={"qkv_bias": True},
        ),
        Dialect(
            container="huggingface",
            model_type="llama",
            slots=HUGGINGFACE_SLOTS,
            defaults={"max_position_embeddings": 2048},
            ignored=("model.layers.*.self_attn.rotary_emb.inv_freq",),
        ),
        Dialect(
            container="gguf",
            model_type="llama",
            slots=GGUF_SLOTS,
            keys=gguf_keys("llama"),
            transforms={
                "block.*.q": (RotaryRows("num_attention_heads"),),
                "block.*.k": (RotaryRows("num_key_value_heads"),),
            },
        ),
    )

    def config(self, raw: Mapping[str, Any]) -> Qwen2Config:
        fields = decoder_fields(raw)
        windows = sliding_windows(raw, fields["layers"])
        return Qwen2Config(**fields, qkv_bias=raw.get("qkv_bias", False), sliding=windows)

    def build(self, config: Qwen2Config, part: Part) -> Description:
        tokens = Slot("embed.tokens", Role.HEAD if config.tied else Role.EMBEDDING, (config.vocab, config.hidden))
        if isinstance(part, Embed):
            return Embedding(tokens)
        if isinstance(part, Block):
            return self.block(config, f"block.{part.index}")
        output = tokens if config.tied else Slot("head.output", Role.HEAD, (config.vocab, config.hidden))
        return LanguageHead(self.norm(config, "head.norm"), Linear(output))

    def block(self, config: Qwen2Config, name: str) -> DecoderBlock:
        def linear(key: str, out: int, into: int, bias: bool = False) -> Linear:
            weight = Slot(f"{name}.{key}", Role.LINEAR, (out, into))
            return Linear(weight, Slot(f"{name}.{key}.bias", Role.BIAS, (out,)) if bias else None)

        hidden, inner = config.hidden, config.intermediate
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        return DecoderBlock(
            attention_norm=self.norm(config, f"{name}.attention_norm"),
            attention=Attention(
                qkv=Linears(
                    (
                        linear("q", queries, hidden, config.qkv_bias),
                        linear("k", keys, hidden, config.qkv_bias),
                        linear("v", keys, hidden, config.qkv_bias),
                    )
                ),
                output=linear("o", hidden, queries),
                attend=Attend(config.heads, config.kv_heads, config.head_dim, config.scale),
                rotary=config.rope,
            ),
            mlp_norm=self.norm(config, f"{name}.mlp_norm"),
            mlp=GatedMLP(
                gate_up=Linears((linear("gate", inner, hidden), linear("up", inner, hidden))),
                down=linear("down", hidden, inner),
                activation=config.activation,
            ),
        )

    def norm(self, config: Qwen2Config, key: str) -> Norm:
        return Norm(Slot(key, Role.NORM, (config.hidden,)), config.eps)

    def rotary(self, config: Qwen2Config, layer: int) -> Rotary:
        return config.rope

    def state(self, config: Qwen2Config, layer: int) -> Paged:
        per_token = (config.kv_heads, config.head_dim)
        return Paged({"k": per_token, "v": per_token}, sliding=config.sliding[layer])
