"""The pieces of a pre-norm decoder, composed from a `DecoderConfig`; an architecture puts them together.

Slots are named as `HUGGINGFACE_SLOTS` and `GGUF_SLOTS` know them.
"""

from __future__ import annotations

from truecluster.api import Role, Slot

from .conventions import DecoderConfig
from .descriptions import Attend, Attention, Embedding, GatedMLP, LanguageHead, Linear, Linears, Norm


def decoder_embedding(config: DecoderConfig) -> Embedding:
    """Reads ``embed.tokens``, in the head's format where the head shares it."""
    return Embedding(_tokens(config))


def decoder_head(config: DecoderConfig) -> LanguageHead:
    """Final norm and output matrix: ``head.output``, or ``embed.tokens`` where they are tied."""
    output = _tokens(config) if config.tied else Slot("head.output", Role.HEAD, (config.vocab, config.hidden))
    return LanguageHead(decoder_norm(config, "head.norm"), Linear(output))


def decoder_norm(config: DecoderConfig, key: str) -> Norm:
    """A norm over the hidden size whose weight is the slot ``key``."""
    return Norm(Slot(key, Role.NORM, (config.hidden,)), config.eps)


def decoder_attention(
    config: DecoderConfig, block: str, qkv_bias: bool = False, output_bias: bool = False
) -> Attention:
    """Rotary grouped-query attention of ``block``, with slots ``q``, ``k``, ``v`` and ``o``."""
    hidden, queries, keys = config.hidden, config.heads * config.head_dim, config.kv_heads * config.head_dim
    q, k, v = (
        _linear(f"{block}.{key}", out, hidden, qkv_bias) for key, out in (("q", queries), ("k", keys), ("v", keys))
    )
    return Attention(
        qkv=Linears((q, k, v)),
        output=_linear(f"{block}.o", hidden, queries, output_bias),
        attend=Attend(config.heads, config.kv_heads, config.head_dim, config.scale),
        head_dim=config.head_dim,
        rotary=config.rope,
    )


def decoder_mlp(config: DecoderConfig, block: str, bias: bool = False) -> GatedMLP:
    """Gated MLP of ``block``, with slots ``gate``, ``up`` and ``down``."""
    hidden, inner = config.hidden, config.intermediate
    gate, up = (_linear(f"{block}.{key}", inner, hidden, bias) for key in ("gate", "up"))
    return GatedMLP(
        gate_up=Linears((gate, up)),
        down=_linear(f"{block}.down", hidden, inner, bias),
        activation=config.activation,
    )


def _tokens(config: DecoderConfig) -> Slot:
    return Slot("embed.tokens", Role.HEAD if config.tied else Role.EMBEDDING, (config.vocab, config.hidden))


def _linear(key: str, out: int, into: int, bias: bool) -> Linear:
    return Linear(Slot(key, Role.LINEAR, (out, into)), Slot(f"{key}.bias", Role.BIAS, (out,)) if bias else None)
