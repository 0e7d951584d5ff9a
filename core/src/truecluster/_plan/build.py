"""From placements to the plan of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from truecluster.api import COORDINATOR, DType, Dtypes, Placement

from .model import EdgeKind, EdgePlan, Route, RunPlan, StagePlan


def build_plan(
    placements: Sequence[Placement],
    *,
    run: int,
    model: str,
    transport: str,
    dtypes: Mapping[str, Dtypes],
    threads: Mapping[str, int | None] | None = None,
    route: Callable[[str, str], Route] = lambda producer, consumer: Route.DIRECT,
) -> RunPlan:
    """Lay edges around the stages: engine → 0 → … → last → engine. ``dtypes`` and ``threads`` are by node id,
    ``route`` takes those of the two nodes of an edge that lie apart.

    The placements have passed `validate`.
    """
    count = len(placements)
    ends = [None, *range(count), None]
    hosts = [COORDINATOR, *(placement.node for placement in placements), COORDINATOR]
    edges = tuple(
        EdgePlan(
            id=f"{run}.{i}",
            kind=_kind(i, count),
            producer=producer,
            consumer=consumer,
            transport=transport,
            route=Route.DIRECT if hosts[i] == hosts[i + 1] else route(hosts[i], hosts[i + 1]),
            dtype=_carried(dtypes, placements[max(i - 1, 0) : i + 1], _kind(i, count)),
        )
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
            dtypes=dtypes[placement.node],
            threads=(threads or {}).get(placement.node),
        )
        for i, placement in enumerate(placements)
    )
    return RunPlan(run=run, model=model, stages=stages, edges=edges)


def _kind(edge: int, stages: int) -> EdgeKind:
    if edge == 0:
        return EdgeKind.TOKEN_IN
    return EdgeKind.TOKEN_OUT if edge == stages else EdgeKind.ACTIVATION


def _carried(dtypes: Mapping[str, Dtypes], ends: Sequence[Placement], kind: EdgeKind) -> DType:
    if kind is not EdgeKind.ACTIVATION:
        return DType.INT32
    before, after = (dtypes[end.node].residual for end in ends)
    return before.wider(after)
