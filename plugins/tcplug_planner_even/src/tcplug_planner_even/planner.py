"""The even planner: contiguous blocks, equal shares by needed bytes."""

from __future__ import annotations

from collections.abc import Sequence

from truecluster.api import COORDINATOR, Limits, ModelProfile, NodeProfile, Placement, PlanError, Planner, Span

from .partition import partition


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
            raise PlanError(_refusal(model, nodes, allowed, sizes[0, layers]))
        placed = [Placement(nodes[share.host].id, spans[share.start, share.stop]) for share in shares]
        if ends:
            return placed
        first, last = Span(0, 0, embed=True), Span(layers, layers, head=True)
        return [Placement(COORDINATOR, first), *placed, Placement(COORDINATOR, last)]


def _refusal(model: ModelProfile, nodes: Sequence[NodeProfile], allowed: int, needed: int) -> str:
    """What is needed, what there is, and what to do."""
    if not nodes:
        return f"{model.name} needs {needed:,} bytes of memory and there are no nodes; start one with tc node"
    there = ", ".join(f"{n.id} {'unknown' if n.memory is None else f'{n.memory:,}'}" for n in nodes)
    largest = max(block.needed for block in model.blocks) + model.workspace
    return (
        f"{model.name} doesn't fit: it needs {needed:,} bytes on at most {allowed} nodes, and {largest:,} for its "
        f"largest block alone; bytes there are: {there}. Add nodes, raise --max-nodes, or choose a smaller --quant"
    )
