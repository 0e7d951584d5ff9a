"""A checkpoint of tensors in memory that counts what is read, and registries for its formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from truecluster import api
from truecluster._weights.binding import parts_of
from truecluster.api import Checkpoint, Packed, TensorInfo, TokenizerData

DTYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def packed(tensor: torch.Tensor) -> Packed:
    """A plain tensor's own bytes."""
    return Packed(DTYPES[tensor.dtype], tuple(tensor.shape), tensor.contiguous().flatten().view(torch.uint8))


class MemoryCheckpoint(Checkpoint):
    """``tensors`` are plain or packed; ``reads`` are the names that were read, in order."""

    name = "a-model"
    generation: Mapping[str, Any] = {}
    chat_templates: Mapping[str, str] = {}

    def __init__(
        self,
        metadata: Mapping[str, Any],
        tensors: Mapping[str, torch.Tensor | Packed],
        *,
        container: str = "huggingface",
        model_type: str = "tiny",
        identity: str = "first",
    ) -> None:
        self.container, self.model_type, self.identity = container, model_type, identity
        self.metadata = metadata
        self.held = {name: t if isinstance(t, Packed) else packed(t) for name, t in tensors.items()}
        self.tensors = {name: TensorInfo(p.shape, p.format, p.data.numel()) for name, p in self.held.items()}
        self.reads: list[str] = []

    def read(self, name: str) -> Packed:
        self.reads.append(name)
        return self.held[name]

    def tokenizer(self) -> TokenizerData:
        return TokenizerData(json=None)


class Unreadable(MemoryCheckpoint):
    """Whose tensors nobody may read."""

    def read(self, name: str) -> Packed:
        raise AssertionError(f"{name} was read")


def named(architecture: api.Architecture, raw: Mapping[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random fp32 tensors by the names that checkpoints on the hub have, by the rules of transformers' modules."""
    config = architecture.config(raw)
    words = {
        "attention_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        **{name: f"self_attn.{name}_proj" for name in "qkvo"},
        **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
    }
    ends = {"embed.tokens": "model.embed_tokens", "head.norm": "model.norm", "head.output": "lm_head"}
    random = torch.Generator().manual_seed(seed)
    tensors = {}
    for slot in dict.fromkeys(s for part in parts_of(config) for s in architecture.slots(config, part)):
        stem, kind = (slot.key.removesuffix(".bias"), "bias") if slot.key.endswith(".bias") else (slot.key, "weight")
        if stem in ends:
            name = ends[stem]
        else:
            _, number, word = stem.split(".")
            name = f"model.layers.{number}.{words[word]}"
        tensors[f"{name}.{kind}"] = torch.randn(slot.shape, generator=random)
    return tensors
