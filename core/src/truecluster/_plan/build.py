"""From placements to the plan of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from truecluster.api import Placement

from .model import EdgeKind, EdgePlan, RunPlan, StagePlan


def build_plan(
    placements: Sequence[Placement],
    *,
    run: int,
    model: str,
    transport: str,
    threads: Mapping[str, int | None] | None = None,
) -> RunPlan:
    """Lay edges around the stages: engine → 0 → … → last → engine. ``threads`` is by node id.

    The placements have passed `validate`.
    """
    count = len(placements)
    ends = [None, *range(count), None]
    edges = tuple(
        EdgePlan(id=f"{run}.{i}", kind=_kind(i, count), producer=producer, consumer=consumer, transport=transport)
        for i, (producer, consumer) in enumerate(pairwise(ends))
    )
    stages = tuple(
        StagePlan(
            index=i,
            count=count,
            node=placement.node,
            span=placement.span,
            inbound=edges[i].id,
            outbound=edges[i + 1].id,
            threads=(threads or {}).get(placement.node),
        )
        for i, placement in enumerate(placements)
    )
    return RunPlan(run=run, model=model, stages=stages, edges=edges)


def _kind(edge: int, stages: int) -> EdgeKind:
    if edge == 0:
        return EdgeKind.TOKEN_IN
    return EdgeKind.TOKEN_OUT if edge == stages else EdgeKind.ACTIVATION
