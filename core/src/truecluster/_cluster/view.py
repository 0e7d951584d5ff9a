"""A cluster for whoever looks on, as plain data: bytes, tokens, seconds, and speeds in bytes/s. See docs/cluster.md."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import attrs

from truecluster._pipeline.machines import RunState
from truecluster._plan import EdgePlan, RunPlan
from truecluster.api import DType

from .memory import NodeFacts
from .planning import Planned
from .provision import Provision
from .routes import named_ends
from .session import NodeSession

_DOING = {
    RunState.PLANNING: "loading",
    RunState.PROVISIONING: "loading",
    RunState.WAITING_READY: "loading",
    RunState.RUNNING: "working",
    RunState.COMPLETED: "stopping",
    RunState.FAULTED: "stopping",
    RunState.TEARING_DOWN: "stopping",
    RunState.DONE: "waiting",
}
"""What a node does whose stage is of a run in that state."""


def plan_view(planned: Planned, name: str) -> dict[str, Any]:
    """What `tc plan --json` prints."""
    size, wanted = planned.fitted.size, planned.fitted.wanted
    return {
        "model": name,
        "context": size.context,
        "wanted_context": wanted.context,
        "sequences": size.sequences,
        "state_tokens": size.pages * size.page_tokens,
        "stages": [attrs.asdict(share) for share in planned.shares],
    }


def node_view(session: NodeSession, run: Provision | None) -> dict[str, Any]:
    """One node; ``span`` is null where it hosts nothing."""
    facts = session.facts()
    spans = {stage.node: str(stage.span) for stage in run.plan.stages} if run else {}
    return {
        "id": session.id,
        "hostname": session.hello.hostname,
        "device": session.device,
        "dtypes": [dtypes.compute.value for dtypes in session.hello.dtypes],
        "free": facts.free,
        "max_memory": facts.bound,
        "speed": facts.speed,
        "span": spans.get(session.id),
        "state": _state(session, run, spans),
    }


def _state(session: NodeSession, run: Provision | None, spans: Mapping[str, str]) -> str:
    if run is None:
        return "waiting"
    return _DOING[run.state] if session.id in spans else "spare"


def stage_views(run: Provision, rate: Callable[[Hashable], float | None]) -> list[dict[str, Any]]:
    """What every stage of a run has done; ``rate`` gives the growth a second of a counter of `work`."""
    moved = {each.node: each for each in run.moved}
    return [
        {
            "stage": stage.index,
            "node": stage.node,
            "span": str(stage.span),
            "weights": run.weights.get(stage.index, 0),
            "sent_weights": moved[stage.node].sent if stage.node in moved else 0,
            "steps": progress.finished_steps,
            "busy_seconds": progress.worked_s,
            "busy_now": progress.busy_s,
            "busy_share": _share(rate((run.plan.run, stage.index))),
        }
        for stage, progress in zip(run.plan.stages, run.progress, strict=True)
    ]


def work(run: Provision) -> dict[Hashable, float]:
    """Seconds that each stage has been busy, by run and stage."""
    return {(run.plan.run, i): each.worked_s + (each.busy_s or 0.0) for i, each in enumerate(run.progress)}


def _share(rate: float | None) -> float | None:
    return None if rate is None else min(1.0, max(0.0, rate))


def edge_views(run: Provision) -> list[dict[str, Any]]:
    """Every edge of a run in the order in which a step passes them, and what went over it."""
    sent = [run.run.sent_bytes if run.run else 0, *(progress.sent_bytes for progress in run.progress)]
    return [_edge_view(edge, count, run.plan) for edge, count in zip(run.plan.edges, sent, strict=True)]


def _edge_view(edge: EdgePlan, sent: int, plan: RunPlan) -> dict[str, Any]:
    producer, consumer = named_ends(plan, edge)
    inside = producer == consumer
    return {
        "from": producer,
        "to": consumer,
        "kind": edge.kind.value,
        "dtype": edge.dtype.value,
        "transport": None if inside else edge.transport,
        "route": None if inside else edge.route.value,
        "bytes": sent,
    }


def run_view(run: Provision) -> dict[str, Any]:
    """Where a run stands."""
    steps = run.run.answered if run.run else 0
    return {"number": run.plan.run, "state": run.state.value, "steps": steps, "depth": run.plan.depth}


def read_node(view: Mapping[str, Any], wanted: DType) -> tuple[NodeFacts, DType]:
    """What `node_view` wrote, and what the node would compute a model in whose dtype is ``wanted``."""
    facts = NodeFacts(
        id=view["id"],
        device=view["device"],
        place=(view["hostname"], view["device"]),
        free=view["free"],
        bound=view["max_memory"],
        speed=view["speed"],
    )
    return facts, wanted if wanted.value in view["dtypes"] else DType.FP32
