"""A small random decoder, and its logits by an independent forward: whole sequence, no cache, fp64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch

from truecluster import api, nn
from truecluster._pipeline.build import HandleCache, StageFacts, build_stage
from truecluster._pipeline.stage import Stage
from truecluster._registry import Registry
from truecluster._weights.binding import parts_of
from truecluster._weights.catalog import Unit
from truecluster.testing._host import HostDevice, Plain

torch.set_num_threads(1)  # on matrices this small a second thread only waits for the first

FP32 = api.Dtypes(api.DType.FP32, api.DType.FP32)

RAW = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


class TinyDecoder(api.Architecture):
    """A pre-norm decoder without biases."""

    dialects = (api.Dialect(container="huggingface", model_type="tiny", slots=nn.HUGGINGFACE_SLOTS),)

    def config(self, raw: Mapping[str, Any]) -> nn.DecoderConfig:
        return nn.DecoderConfig(**nn.decoder_fields(raw))

    def build(self, config: nn.DecoderConfig, part: api.Part) -> api.Description:
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

    def rotary(self, config: nn.DecoderConfig, layer: int) -> api.Rotary | None:
        return config.rope

    def state(self, config: nn.DecoderConfig, layer: int) -> api.State:
        per_token = (config.kv_heads, config.head_dim)
        return api.Paged({"k": per_token, "v": per_token})


class TinyPlugin:
    """Offers the format that the weights of a tiny model lie in."""

    @api.hookimpl
    def truecluster_quantizers(self):
        yield api.FormatSpec(name="plain", target="truecluster.testing._host:Plain")


def plain_registry() -> Registry:
    """No plugin but the format ``plain``: only the reference kernel runs."""
    registry = Registry()
    registry.register(TinyPlugin(), "tiny", "1")
    return registry


def random_weights(architecture: api.Architecture, config: api.ModelConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """Slot key → fp32 tensor, large enough that logits differ by far more than rounding."""
    random = torch.Generator().manual_seed(seed)
    slots = dict.fromkeys(slot for part in parts_of(config) for slot in architecture.slots(config, part))
    return {
        slot.key: torch.randn(slot.shape, generator=random) * slot.shape[-1] ** -0.5
        if len(slot.shape) > 1
        else 1 + 0.1 * torch.randn(slot.shape, generator=random)
        for slot in slots
    }


@attrs.define(eq=False)
class TinyModel:
    """Weights with the architecture that reads them; matrices lie in ``format``, vectors in fp32."""

    architecture: api.Architecture
    config: Any
    weights: dict[str, torch.Tensor]
    registry: Registry = attrs.field(factory=plain_registry)
    format: api.WeightFormat = attrs.field(factory=Plain)
    vectors: api.WeightFormat = attrs.field(factory=Plain)
    handles: HandleCache = attrs.field(factory=HandleCache)
    reads: list[str] = attrs.field(factory=list)

    @classmethod
    def make(cls, seed: int = 0, architecture: api.Architecture | None = None, **changes: Any) -> TinyModel:
        """A model whose config.json differs from `RAW` by ``changes``."""
        architecture = architecture or TinyDecoder()
        config = architecture.config({**RAW, **changes})
        return cls(architecture, config, random_weights(architecture, config, seed))

    def stage(self, span: api.Span, *, pages: int = 16, sequences: int = 4, max_tokens: int = 64, **more: Any) -> Stage:
        """A stage of the model, on the host or another ``device``, with any fields of `StageFacts` in ``more``."""
        device = more.pop("device", HostDevice())
        slots = dict.fromkeys(s for part in span.parts() for s in self.architecture.slots(self.config, part))
        edges = {
            "inbound": api.DType.INT32 if span.embed else api.DType.FP32,
            "outbound": api.DType.INT32 if span.head else api.DType.FP32,
        }
        facts = StageFacts(
            span=span,
            architecture=self.architecture,
            config=self.config,
            units=[Unit(slot=slot, format=self._format(slot.shape).id, digest=slot.key, nbytes=0) for slot in slots],
            pages=pages,
            sequences=sequences,
            max_tokens=max_tokens,
            **{"dtypes": FP32, "step_timeout": 5.0, **edges, **more},
        )
        return build_stage(facts, self.registry, device, self._read, self.handles)

    def whole(self, **numbers: Any) -> Stage:
        """One stage of everything."""
        return self.stage(api.Span(0, self.config.layers, embed=True, head=True), **numbers)

    def _read(self, unit: Unit) -> api.Packed:
        self.reads.append(unit.slot.key)
        return self._format(unit.slot.shape).pack(self.weights[unit.slot.key])

    def _format(self, shape: Sequence[int]) -> api.WeightFormat:
        return self.format if len(shape) > 1 else self.vectors

    def logits(self, ids: Sequence[int]) -> torch.Tensor:
        """``[n, vocab]`` fp64 of the whole sequence."""
        return decoder_logits(self.config, self.weights, ids)

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """The ``count`` likeliest tokens that follow, one after another."""
        ids = list(prompt)
        for _ in range(count):
            ids.append(int(self.logits(ids)[-1].argmax()))
        return ids[len(prompt) :]


def normed(config: Any, weights: Mapping[str, torch.Tensor], x: torch.Tensor, key: str) -> torch.Tensor:
    """Root mean square norm in fp64."""
    return x / (x.pow(2).mean(-1, keepdim=True) + config.eps).sqrt() * weights[key].double()


def decoder_logits(config: Any, weights: Mapping[str, torch.Tensor], ids: Sequence[int]) -> torch.Tensor:
    """``[n, vocab]`` fp64."""
    return head_logits(config, weights, decoder_hidden(config, weights, ids))


def head_logits(config: Any, weights: Mapping[str, torch.Tensor], hidden: torch.Tensor) -> torch.Tensor:
    """Final norm and output matrix in fp64."""
    output = weights["embed.tokens" if config.tied else "head.output"].double()
    return normed(config, weights, hidden, "head.norm") @ output.T


def decoder_hidden(config: Any, weights: Mapping[str, torch.Tensor], ids: Sequence[int]) -> torch.Tensor:
    """The pre-norm decoder as the papers write it; pairs (i, i + dim/2) are turned as complex numbers."""
    w = {key: tensor.double() for key, tensor in weights.items()}
    n, d = len(ids), config.head_dim

    def turn(x: torch.Tensor) -> torch.Tensor:  # [heads, n, d]
        angles = torch.arange(n).double()[:, None] / config.rope.theta ** (torch.arange(0, d, 2).double() / d)
        turned = torch.complex(x[..., : d // 2], x[..., d // 2 :]) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1)

    x = w["embed.tokens"][list(ids)]
    for i in range(config.layers):
        y = normed(config, w, x, f"block.{i}.attention_norm")
        q, k, v = ((y @ w[f"block.{i}.{name}"].T).view(n, -1, d).transpose(0, 1) for name in "qkv")
        q, k = turn(q), turn(k)
        mixed = []
        for head in range(config.heads):
            shared = head // (config.heads // config.kv_heads)
            scores = (q[head] @ k[shared].T / d**0.5).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
            mixed.append(scores.softmax(-1) @ v[shared])
        x = x + torch.cat(mixed, -1) @ w[f"block.{i}.o"].T
        y = normed(config, w, x, f"block.{i}.mlp_norm")
        gate = y @ w[f"block.{i}.gate"].T
        x = x + (gate * gate.sigmoid() * (y @ w[f"block.{i}.up"].T)) @ w[f"block.{i}.down"].T
    return x
