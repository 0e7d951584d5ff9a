"""Random questions for planners: a model, nodes, limits. What they say of themselves is what an author reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs
from hypothesis import strategies as st

from truecluster.api import Block, Embed, Head, Limits, ModelProfile, NodeProfile, PartProfile, Span

NAMES = tuple("abcdefghi")
"""Of nodes: without digits, so that digits of a message are numbers."""


@attrs.frozen(repr=False)
class Question:
    """What a planner is asked."""

    model: ModelProfile
    nodes: tuple[NodeProfile, ...]
    limits: Limits

    @property
    def whole(self) -> int:
        """Bytes that one node needs which hosts all that may lie on nodes."""
        return self.model.needed(self.span(0, len(self.model.blocks)))

    @property
    def least(self) -> int:
        """Bytes without which no node can host anything: the weights of the smallest block."""
        return min(block.resident for block in self.model.blocks)

    def span(self, start: int, stop: int) -> Span:
        """Blocks on a node, with the ends where limits put them there."""
        ends = self.limits.head == "last-stage"
        return Span(start, stop, embed=ends and start == 0, head=ends and stop == len(self.model.blocks))

    def __repr__(self) -> str:
        nodes = ", ".join(f"{node.id} {_bytes(node.memory)}" for node in self.nodes) or "none"
        return f"{_model(self.model)}; nodes: {nodes}; {self.limits}"


def _model(model: ModelProfile) -> str:
    blocks = " ".join(f"{block.resident}+{block.state}" for block in model.blocks[:8])
    more = "" if len(model.blocks) <= 8 else " …"
    ends = f"embed {model.parts[0].needed}, head {model.parts[-1].needed}{', tied' if model.tied else ''}"
    each = f"each stage {model.workspace}, with blocks {model.attention} more"
    return f"{len(model.blocks)} blocks of weights+state bytes: {blocks}{more}; {ends}; {each}"


def _bytes(memory: int | None) -> str:
    return "unknown" if memory is None else f"{memory} bytes"


def model(blocks: Sequence[tuple[int, int]], *, ends: tuple[int, int] = (0, 0), **more: Any) -> ModelProfile:
    """A model of blocks of the given weights and state, in bytes, and of an embed and a head of the given weights."""
    middle = [
        PartProfile(part=Block(i), wire=weights, resident=weights, state=state)
        for i, (weights, state) in enumerate(blocks)
    ]
    first = PartProfile(part=Embed(), wire=ends[0], resident=ends[0])
    last = PartProfile(part=Head(), wire=ends[1], resident=ends[1])
    return ModelProfile(name="toy", parts=(first, *middle, last), **more)


few = st.integers(0, 100)
flags = st.booleans()
layers = st.integers(1, 6) | st.integers(2, 3) | st.integers(1, 90)
patterns = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=4)
heads: st.SearchStrategy[Literal["coordinator", "last-stage"]] = st.sampled_from(["coordinator", "last-stage"])
most = st.none() | st.integers(1, 3) | st.integers(1, len(NAMES))
any_shares = st.lists(st.none() | st.integers(0, 60) | st.integers(0, 150), max_size=len(NAMES) - 1)
shares = any_shares | st.lists(st.integers(20, 90), min_size=2, max_size=len(NAMES) - 1)
"""Percent of what the whole model needs; in the second kind no node holds it alone, and together they mostly do."""
places = st.integers(0, len(NAMES) - 1)


@st.composite
def bare(draw: st.DrawFn) -> Question:
    """1 to 90 blocks, alike or not, with state or without; ends, which may be tied; what a stage needs to compute."""
    pattern, count = draw(patterns), draw(layers)
    made = model(
        [pattern[i % len(pattern)] for i in range(count)],
        ends=(draw(few), draw(few)),
        tied=draw(flags),
        workspace=draw(few),
        attention=draw(few),
    )
    return Question(made, (), Limits(head=draw(heads), max_nodes=draw(most)))


def nodes(memory: Sequence[int | None], *, backwards: bool) -> tuple[NodeProfile, ...]:
    """Nodes of unlike kinds, measured or not, their names in order or not."""
    names = NAMES[::-1] if backwards else NAMES
    return tuple(
        NodeProfile(id=names[i], device="cuda:0" if i % 4 == 1 else "cpu", memory=bytes, speed=None if i % 3 else i + 1)
        for i, bytes in enumerate(memory)
    )


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Any: the memory that nodes have is unknown, none, or up to half more than the whole model needs."""
    asked = draw(bare())
    memory = [None if share is None else asked.whole * share // 100 for share in draw(shares)]
    return attrs.evolve(asked, nodes=nodes(memory, backwards=draw(flags)))


@st.composite
def easy(draw: st.DrawFn) -> Question:
    """One where some node alone holds all of the model, by unknown memory or to the byte."""
    asked = draw(questions())
    holder = NodeProfile(id="z", device="cpu", memory=None if draw(flags) else asked.whole)
    place = draw(places)
    return attrs.evolve(asked, nodes=(*asked.nodes[:place], holder, *asked.nodes[place:]))


@st.composite
def hopeless(draw: st.DrawFn) -> Question:
    """One where no node can hold the weights of any block."""
    asked = draw(bare())
    memory = [(asked.least - 1) * (share or 0) // 150 for share in draw(shares)]
    return attrs.evolve(asked, nodes=nodes(memory, backwards=draw(flags)))
