"""A family that no library knows: blocks without attention, and the same written out as its oracle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import torch
from torch.nn.functional import rms_norm

from truecluster import api, nn
from truecluster.testing.architecture import Example

FIELDS = {
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "max_position_embeddings",
    "tie_word_embeddings",
    "eos_token_id",
}


@attrs.frozen(cache_hash=True)
class Residual(api.Description):
    """``hidden + linear(norm(hidden))``."""

    norm: nn.Norm
    linear: nn.Linear

    def forward(self, hidden: torch.Tensor, batch: Any, state: Any) -> torch.Tensor:
        return hidden + self.linear(self.norm(hidden))


class Toy(api.Architecture):
    dialects = (
        api.Dialect(
            container="huggingface",
            model_type="toy",
            slots={
                "embed.tokens": "embed",
                "block.*.norm": "layers.*.norm",
                "block.*.linear": "layers.*.linear",
                "head.norm": "norm",
                "head.output": "output",
            },
        ),
    )

    def config(self, raw: Mapping[str, Any]) -> api.ModelConfig:
        eos = raw.get("eos_token_id") or []
        if raw.get("dtype", "float32") not in ("float32", "bfloat16") or not isinstance(eos, list):
            raise api.CheckpointError("config: dtype or eos_token_id isn't one that a toy has")
        return api.ModelConfig(
            hidden=nn.positive(raw, "hidden_size"),
            layers=nn.positive(raw, "num_hidden_layers", most=99),
            vocab=nn.positive(raw, "vocab_size"),
            context=nn.positive(raw, "max_position_embeddings"),
            tied=nn.flag(raw, "tie_word_embeddings"),
            dtype=api.DType.BF16 if raw.get("dtype") == "bfloat16" else api.DType.FP32,
            eos=tuple(eos),
        )

    def build(self, config: api.ModelConfig, part: api.Part) -> api.Description:
        tokens = api.Slot("embed.tokens", api.Role.HEAD, (config.vocab, config.hidden))
        if isinstance(part, api.Embed):
            return nn.Embedding(tokens)
        norm = nn.Norm(api.Slot(f"{part}.norm", api.Role.NORM, (config.hidden,)), 1e-6)
        if isinstance(part, api.Head):
            return nn.LanguageHead(norm, nn.Linear(tokens if config.tied else attrs.evolve(tokens, key="head.output")))
        linear = api.Slot(f"{part}.linear", api.Role.LINEAR, (config.hidden, config.hidden))
        return Residual(norm, nn.Linear(linear))

    def rotary(self, config: api.ModelConfig, layer: int) -> None:
        return None

    def state(self, config: api.ModelConfig, layer: int) -> api.Paged:
        return api.Paged({"nothing": (1,)})


def toy_example(fields: Mapping[str, Any]) -> Example:
    """A random toy."""
    draw = torch.Generator().manual_seed(3)
    hidden, layers, vocab = (fields[name] for name in ("hidden_size", "num_hidden_layers", "vocab_size"))
    shapes = {"embed": (vocab, hidden), "norm": (hidden,), "output": (vocab, hidden)}
    for i in range(layers):
        shapes |= {f"layers.{i}.norm": (hidden,), f"layers.{i}.linear": (hidden, hidden)}
    if fields["tie_word_embeddings"]:
        del shapes["output"]
    tensors = {
        f"{name}.weight": torch.randn(shape, generator=draw).bfloat16().float() for name, shape in shapes.items()
    }

    def logits(ids: torch.Tensor, start: int) -> torch.Tensor:
        hidden = tensors["embed.weight"][ids]
        for i in range(layers):
            normed = rms_norm(hidden, hidden.shape[-1:], tensors[f"layers.{i}.norm.weight"], eps=1e-6)
            hidden = hidden + normed @ tensors[f"layers.{i}.linear.weight"].T
        output = tensors.get("output.weight", tensors["embed.weight"])
        return rms_norm(hidden, hidden.shape[-1:], tensors["norm.weight"], eps=1e-6) @ output.T

    facts = api.ModelConfig(
        hidden=hidden,
        layers=layers,
        vocab=vocab,
        context=fields["max_position_embeddings"],
        tied=fields["tie_word_embeddings"],
        dtype=api.DType.FP32,
        eos=tuple(fields.get("eos_token_id", ())),
    )
    return Example(raw=fields, tensors=tensors, logits=logits, facts=facts)
