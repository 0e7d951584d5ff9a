"""What a planner is told and what it answers. Planning is pure: no sockets, no tensors, no clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import attrs

from .model import Part, Span

COORDINATOR = "coordinator"
"""The node id of the coordinator itself, where embed and head may be placed."""


@attrs.frozen(kw_only=True)
class PartProfile:
    """Bytes of one part: sent (``wire``), held when loaded (``resident``), and of sequence state (``state``)."""

    part: Part
    wire: int
    resident: int
    state: int = 0

    @property
    def needed(self) -> int:
        """Bytes of memory that a node needs to host the part."""
        return self.resident + self.state


@attrs.frozen(kw_only=True)
class ModelProfile:
    """The parts in order: embed, every block, head. ``workspace`` bytes are needed once per stage, and ``attention``
    bytes once per stage with blocks.

    Where ``tied``, embed and head share one matrix, which a node that hosts both holds once: its bytes are counted
    in the head, and ``embed.resident`` is what embed needs where it stands alone.
    """

    name: str
    parts: tuple[PartProfile, ...]
    tied: bool = False
    workspace: int = 0
    attention: int = 0
    _reached: tuple[int, ...] = attrs.field(init=False, repr=False, eq=False)

    @_reached.default
    def _add_up(self) -> tuple[int, ...]:
        """What the blocks before each one need; planners ask for thousands of spans."""
        return (0, *accumulate(block.needed for block in self.blocks))

    @property
    def blocks(self) -> tuple[PartProfile, ...]:
        """The transformer blocks, without embed and head."""
        return self.parts[1:-1]

    def ends(self, *, embed: bool, head: bool) -> int:
        """Bytes that one node holds of the ends."""
        held = self.parts[-1].needed if head else 0
        return held + (self.parts[0].needed if embed and not (head and self.tied) else 0)

    def needed(self, span: Span) -> int:
        """Bytes of memory that a node needs to host ``span``."""
        blocks = self._reached[span.stop] - self._reached[span.start]
        return blocks + self.ends(embed=span.embed, head=span.head) + self.work(span)

    def work(self, span: Span) -> int:
        """Bytes that the stage needs while it computes."""
        return self.workspace + (self.attention if span.stop > span.start else 0)


@attrs.frozen(kw_only=True)
class NodeProfile:
    """A node that could host a span.

    ``memory`` is what its stage may take, in bytes, ``None`` if unknown, 0 for a node that can't host anything;
    ``held`` counts, per part of the model, the bytes that its store already has.

    ``speed`` is the bytes of a linear's weights that its device reads in a second, ``None`` if unknown: what a token
    costs a node while decoding is mostly the bytes of its blocks by this. A node measures it once, when it joins, in
    fp32, on the device and the threads that it will use.
    """

    id: str
    device: str
    memory: int | None = None
    held: tuple[int, ...] = ()
    speed: float | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.gt(0)))


@attrs.frozen(kw_only=True)
class Limits:
    """``head`` says where the ends lie: at the coordinator, or embed on the first stage and head on the last."""

    head: Literal["coordinator", "last-stage"] = "coordinator"
    max_nodes: int | None = None


@attrs.frozen
class Placement:
    """A span and the id of the node that hosts it."""

    node: str
    span: Span


class Planner(ABC):
    """Splits a model over nodes. Options typed as ``NAME:k=v`` come as keyword arguments of the constructor."""

    @abstractmethod
    def plan(self, model: ModelProfile, nodes: Sequence[NodeProfile], limits: Limits) -> Sequence[Placement]:
        """The stages in order, from the one with embed to the one with head, every part placed exactly once.

        With ``limits.head == "coordinator"`` the first is ``Span(0, 0, embed=True)`` and the last
        ``Span(layers, layers, head=True)``, both on `COORDINATOR`. A node hosts at most one stage; a stage on a node
        has at least one block; nodes may stay unused. The same arguments give the same answer.

        Raises `PlanError` with the bytes needed and the bytes there are.
        """
