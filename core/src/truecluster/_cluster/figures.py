"""What a run's weights weigh and where they came from: the lines for a reader, and the same for ``--json``.

Bytes per stage are its weights, each once: from its node's store, or sent. The coordinator's own stages read its store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from truecluster._plan import RunPlan, StagePlan
from truecluster.api import COORDINATOR, Dtypes

from .delivery import Moved, together


def lines(plan: RunPlan, moved: Sequence[Moved]) -> Iterator[str]:
    """One per node, in the order of the stages, and what they are together."""
    by_node = {each.node: each for each in moved}
    for stage in plan.stages:
        if stage.node != COORDINATOR:
            each = by_node[stage.node]
            yield f"{stage.node}: {stage.span} in {named(stage.dtypes)}, weights {_origin(each, 'its store')}"
    if len(moved) > 1:
        whole = together(moved)
        yield f"{len(moved)} nodes together: {_megabytes(whole.total)}, {_origin(whole, 'their stores')}"


def report(plan: RunPlan, weights: Mapping[int, int], moved: Sequence[Moved], packed: int) -> dict[str, Any]:
    """Every stage with its bytes, and their sums. ``weights``: bytes by stage; ``packed``: bytes that were packed for
    this cluster since it started."""
    by_node = {each.node: each for each in moved}
    stages = []
    for stage in plan.stages:
        own = Moved(node=stage.node, stored=weights[stage.index], sent=0)
        stages.append(_stage(stage, by_node.get(stage.node, own)))
    sums = {key: sum(stage[key] for stage in stages) for key in ("weight_bytes", "stored_bytes", "sent_bytes")}
    return {"stages": stages, **sums, "packed_bytes": packed}


def named(dtypes: Dtypes) -> str:
    """What a stage computes in, for a reader; its residual where that is another."""
    compute, residual = dtypes.compute.value, dtypes.residual.value
    return compute if compute == residual else f"{compute} with residual {residual}"


def _stage(stage: StagePlan, moved: Moved) -> dict[str, Any]:
    return {
        "node": stage.node,
        "span": str(stage.span),
        "compute_dtype": stage.dtypes.compute.value,
        "residual_dtype": stage.dtypes.residual.value,
        "weight_bytes": moved.total,
        "stored_bytes": moved.stored,
        "sent_bytes": moved.sent,
    }


def _origin(moved: Moved, store: str) -> str:
    return f"{_megabytes(moved.stored)} from {store}, {_megabytes(moved.sent)} sent"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
