"""A model of Qwen2.5-Coder-0.5B's shape: a token, the same linears back to back, and a prompt."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import attrs
import torch

from truecluster.api import Paged, Role, Rotary, Slot
from truecluster.nn import (
    Attend,
    Attention,
    DecoderBlock,
    GatedMLP,
    Linear,
    Linears,
    Norm,
    Row,
    SequenceState,
)

from ..blocks import bind_block
from ..leaves import bind_linear, bind_norm
from ..workspace import Workspace
from .weights import handles, linears_of

ROTARY = Rotary(64, 1e6)


@attrs.frozen
class Shape:
    """Of a decoder."""

    layers: int = 24
    hidden: int = 896
    heads: int = 14
    kv_heads: int = 2
    head_dim: int = 64
    inner: int = 4864
    vocab: int = 151936


def block_of(shape: Shape) -> DecoderBlock:
    """One block, q/k/v with biases."""

    def linear(key: str, out: int, width: int, bias: bool = False) -> Linear:
        return Linear(Slot(key, Role.LINEAR, (out, width)), Slot(f"{key}.bias", Role.BIAS, (out,)) if bias else None)

    hidden, keys = shape.hidden, shape.kv_heads * shape.head_dim
    queries = shape.heads * shape.head_dim
    qkv = [linear(key, out, hidden, True) for key, out in (("q", queries), ("k", keys), ("v", keys))]
    return DecoderBlock(
        attention_norm=Norm(Slot("attention_norm", Role.NORM, (hidden,)), 1e-6),
        attention=Attention(
            qkv=Linears(tuple(qkv)),
            output=linear("o", hidden, queries),
            attend=Attend(shape.heads, shape.kv_heads, shape.head_dim, shape.head_dim**-0.5),
            head_dim=shape.head_dim,
            rotary=ROTARY,
        ),
        mlp_norm=Norm(Slot("mlp_norm", Role.NORM, (hidden,)), 1e-6),
        mlp=GatedMLP(
            gate_up=Linears((linear("gate", shape.inner, hidden), linear("up", shape.inner, hidden))),
            down=linear("down", hidden, shape.inner),
        ),
    )


class Decoder:
    """All blocks and the head, over one sequence."""

    def __init__(self, shape: Shape, format: str, head_format: str) -> None:
        block, workspace = block_of(shape), Workspace()
        norm, head = (
            Norm(Slot("norm", Role.NORM, (shape.hidden,)), 1e-6),
            Linear(Slot("head", Role.HEAD, (shape.vocab, shape.hidden))),
        )
        weights = [handles(block, format) for _ in range(shape.layers)]
        head_weights = handles(head, head_format)
        self._shape = shape
        self._blocks = [bind_block(block, mine, workspace) for mine in weights]
        self._norm = bind_norm(norm, handles(norm, "fp32"), workspace)
        self._head = bind_linear(head, head_weights, workspace)
        bare = [attrs.evolve(linear, bias=None) for linear in linears_of(block)]
        every = [(bind_linear(one, mine, workspace), one.weight.shape[1]) for mine in weights for one in bare]
        self._linears = [(run, torch.randn(1, width)) for run, width in [*every, (self._head, shape.hidden)]]
        paged = Paged(dict.fromkeys(("k", "v"), (shape.kv_heads, shape.head_dim)))
        self._state = SequenceState(dict.fromkeys(range(shape.layers), paged), [ROTARY], pages=64, sequences=1)
        self._state.open(0)
        for page in range(64):
            self._state.extend(0, page)

    def step(self, position: int, tokens: int) -> torch.Tensor:
        """Logits of the last of ``tokens``, from ``position`` on."""
        hidden = torch.randn(tokens, self._shape.hidden)
        batch = self._state.begin([Row(0, position, tokens)])
        for layer, block in enumerate(self._blocks):
            hidden = block(hidden, batch, self._state.layers[layer])
        logits: torch.Tensor = self._head(self._norm(hidden[-1:]))
        return logits

    def linears(self) -> None:
        """The linears of one token, one after another."""
        for run, x in self._linears:
            run(x)


def measure(decoder: Decoder, runs: int) -> dict[str, float]:
    """Milliseconds and tokens a second; a token and its linears are taken in turns behind a prompt of 128."""
    prompts = [seconds(lambda: decoder.step(0, 128)) for _ in range(max(2, runs // 10))]
    tokens, linears = [], []
    for _ in range(runs):
        tokens.append(1e3 * seconds(lambda: decoder.step(128, 1)))
        linears.append(1e3 * seconds(decoder.linears))
    return {
        "token_ms": statistics.median(tokens),
        "linears_ms": statistics.median(linears),
        "around_ms": statistics.median(t - q for t, q in zip(tokens, linears, strict=True)),
        "best_token_ms": min(tokens),
        "best_around_ms": min(tokens) - min(linears),
        "prefill_tok_s": 128 / min(prompts),
    }


def seconds(call: Callable[[], object]) -> float:
    """Of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
