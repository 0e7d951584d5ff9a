"""The descriptions of ``nn`` that the kit offers a kernel, smallest first; some sizes fit no tile or quant group."""

from __future__ import annotations

import attrs

from truecluster.api import Description, Role, Rotary, Slot
from truecluster.nn import (
    Attend,
    Attention,
    DecoderBlock,
    Embedding,
    GatedMLP,
    LanguageHead,
    Linear,
    Linears,
    Norm,
)

SHAPES = ((17, 40), (33, 160), (96, 64), (130, 300), (64, 256))
"""``[out, in]`` of matrices; so many outputs that a row of them is not nearly zero by chance."""
WIDTHS = (7, 40, 64, 256)
"""Of norms."""
HIDDEN, INNER = 64, 160


@attrs.frozen
class Heads:
    """Of a block: query heads, key heads, elements of each, of which so many are rotated."""

    queries: int
    keys: int
    dim: int
    rotated: int
    bias: bool


HEADS = (
    Heads(3, 1, 10, 10, bias=False),
    Heads(4, 2, 16, 16, bias=True),
    Heads(7, 1, 8, 8, bias=False),
    Heads(2, 2, 40, 24, bias=True),
    Heads(2, 1, 64, 0, bias=True),
)


def linear(key: str, out: int, width: int, bias: bool = False, role: Role = Role.LINEAR) -> Linear:
    """A matrix, with a bias where asked."""
    own = Slot(f"{key}.bias", Role.BIAS, (out,)) if bias else None
    return Linear(Slot(key, role, (out, width)), own)


def norm(key: str, width: int, eps: float = 1e-6) -> Norm:
    """A norm over so many elements."""
    return Norm(Slot(key, Role.NORM, (width,)), eps)


def attend(heads: Heads) -> Attend:
    """Of such heads."""
    return Attend(heads.queries, heads.keys, heads.dim, heads.dim**-0.5)


def attention(heads: Heads) -> Attention:
    """Of such heads over rows of ``HIDDEN`` elements."""
    queries, keys = heads.queries * heads.dim, heads.keys * heads.dim
    qkv = (linear(f"block.{key}", out, HIDDEN, heads.bias) for key, out in (("q", queries), ("k", keys), ("v", keys)))
    return Attention(
        qkv=Linears(tuple(qkv)),
        output=linear("block.o", HIDDEN, queries),
        attend=attend(heads),
        head_dim=heads.dim,
        rotary=Rotary(heads.rotated, 10000.0) if heads.rotated else None,
    )


def mlp() -> GatedMLP:
    """Over rows of ``HIDDEN`` elements."""
    gate_up = (linear("block.gate", INNER, HIDDEN), linear("block.up", INNER, HIDDEN))
    return GatedMLP(Linears(gate_up), linear("block.down", HIDDEN, INNER))


def decoder_block(heads: Heads) -> DecoderBlock:
    """Of such heads."""
    first, second = norm("block.attention_norm", HIDDEN), norm("block.mlp_norm", HIDDEN, 1e-5)
    return DecoderBlock(first, attention(heads), second, mlp())


LINEARS = tuple(linear("linear", *shape) for shape in SHAPES)
BIASED = tuple(linear("linear", *shape, bias=True) for shape in SHAPES)
HEAD_LINEARS = tuple(linear("head.output", *shape, role=Role.HEAD) for shape in SHAPES)
NORMS = tuple(norm("norm", width) for width in WIDTHS)
EMBEDDINGS = tuple(Embedding(Slot("embed.tokens", Role.EMBEDDING, shape)) for shape in SHAPES)
STATEFUL = (*map(attend, HEADS), *map(attention, HEADS), *map(decoder_block, HEADS))
"""What reads and writes the state of sequences."""
COMPOSITES: tuple[Description, ...] = (
    Linears((linear("block.q", 33, HIDDEN), linear("block.k", 5, HIDDEN, bias=True))),
    mlp(),
    LanguageHead(norm("head.norm", HIDDEN), linear("head.output", 130, HIDDEN, role=Role.HEAD)),
    *STATEFUL,
)
"""What is held to the reference. `Attend` is a leaf, and held to it nonetheless."""
ROWS_TO_ROWS = (*LINEARS[:2], *BIASED[:2], *HEAD_LINEARS[:1], *NORMS[:2], *COMPOSITES)
"""For the rules of every description that is computed row by row."""
ONE_OF_EACH = (
    LINEARS[0],
    BIASED[0],
    NORMS[0],
    *COMPOSITES[:3],
    attend(HEADS[1]),
    attention(HEADS[1]),
    decoder_block(HEADS[1]),
)
"""For the rules that hold whatever the sizes are."""
EVERYTHING = (*LINEARS, *BIASED, *HEAD_LINEARS, *NORMS, *EMBEDDINGS, *COMPOSITES)
