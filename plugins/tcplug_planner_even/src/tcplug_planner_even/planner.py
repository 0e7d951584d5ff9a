"""The even planner: contiguous blocks, equal shares by needed bytes."""

from __future__ import annotations

from collections.abc import Sequence

from truecluster.api import COORDINATOR, Limits, ModelProfile, NodeProfile, Placement, PlanError, Planner, Span

from .partition import partition
from .refusal import refusal


class EvenPlanner(Planner):
    """Makes the largest share as small as it can be, and uses as many of the given nodes as that and limits allow.

    Nodes keep their order; one whose memory can't hold its share of a plan is left out; unknown memory bounds nothing.
    """

    def plan(self, model: ModelProfile, nodes: Sequence[NodeProfile], limits: Limits) -> Sequence[Placement]:
        layers, ends = len(model.blocks), limits.head == "last-stage"
        spans = {
            (start, stop): Span(start, stop, ends and start == 0, ends and stop == layers)
            for start in range(layers)
            for stop in range(start + 1, layers + 1)
        }
        allowed = len(nodes) if limits.max_nodes is None else min(limits.max_nodes, len(nodes))
        sizes = {cut: model.needed(span) for cut, span in spans.items()}
        shares = partition(layers, sizes, [node.memory for node in nodes], allowed)
        if shares is None:
            raise PlanError(refusal(model, nodes, sizes, allowed))
        placed = [Placement(nodes[share.host].id, spans[share.start, share.stop]) for share in shares]
        if ends:
            return placed
        first, last = Span(0, 0, embed=True), Span(layers, layers, head=True)
        return [Placement(COORDINATOR, first), *placed, Placement(COORDINATOR, last)]
