"""The descriptions that architectures compose.

Shapes: n tokens of a step, flat over its sequences; ``hidden`` is ``[n, hidden]`` in the residual dtype, what a norm
or a linear returns is in the compute dtype; a head's matrix works in fp32, and logits are fp32.
"""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch.nn import functional

from truecluster.api import Description, Rotary, Slot

from .rotary import rotate

ACTIVATIONS = {"silu": functional.silu}


@attrs.frozen(cache_hash=True)
class Linear(Description):
    """``x [n, in] → x @ weight.T + bias [n, out]``. A leaf."""

    weight: Slot
    bias: Slot | None = None


@attrs.frozen(cache_hash=True)
class Linears(Description):
    """Several matrices over one input: ``x [n, in] → ([n, out], …)``."""

    linears: tuple[Linear, ...]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(linear(x) for linear in self.linears)


@attrs.frozen(cache_hash=True)
class Norm(Description):
    """Root mean square norm, fp32 inside: ``x / sqrt(mean(x²) + eps) · weight``, residual → compute. A leaf."""

    weight: Slot
    eps: float


@attrs.frozen(cache_hash=True)
class Embedding(Description):
    """``ids [n] int32 → rows of weight [n, hidden]`` in the residual dtype. A leaf."""

    weight: Slot


@attrs.frozen(cache_hash=True)
class Attend(Description):
    """Append keys and values to the paged state, then attend causally over it. A leaf.

    ``(q [n, heads, dim], k [n, kv_heads, dim], v, batch, state) → [n, heads, dim]``; query head h reads key head
    ``h // (heads / kv_heads)``; softmax in fp32.
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float


@attrs.frozen(cache_hash=True)
class Attention(Description):
    """Grouped-query attention with rotary positions: ``x [n, hidden] → [n, hidden]``."""

    qkv: Linears
    output: Linear
    attend: Attend
    head_dim: int
    rotary: Rotary | None

    def forward(self, x: torch.Tensor, batch: Any, state: Any) -> torch.Tensor:
        q, k, v = (part.unflatten(1, (-1, self.head_dim)) for part in self.qkv(x))
        if self.rotary is not None:
            cos, sin = batch.tables[self.rotary]
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        return self.output(self.attend(q, k, v, batch, state).flatten(1))  # type: ignore[no-any-return]


@attrs.frozen(cache_hash=True)
class GatedMLP(Description):
    """``down(activation(gate(x)) · up(x))``, as in SwiGLU."""

    gate_up: Linears
    down: Linear
    activation: str = "silu"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x)
        return self.down(ACTIVATIONS[self.activation](gate) * up)  # type: ignore[no-any-return]


@attrs.frozen(cache_hash=True)
class DecoderBlock(Description):
    """Pre-norm transformer block: attention and MLP, each added to the residual."""

    attention_norm: Norm
    attention: Attention
    mlp_norm: Norm
    mlp: GatedMLP

    def forward(self, hidden: torch.Tensor, batch: Any, state: Any) -> torch.Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden), batch, state)
        return hidden + self.mlp(self.mlp_norm(hidden))  # type: ignore[no-any-return]


@attrs.frozen(cache_hash=True)
class LanguageHead(Description):
    """Final norm and output matrix: ``hidden [n, hidden] → logits [n, vocab]`` fp32."""

    norm: Norm
    output: Linear

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.output(self.norm(hidden)).float()  # type: ignore[no-any-return]
