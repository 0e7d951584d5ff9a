"""A cluster for whoever looks on, as plain data: sizes in bytes, lengths in tokens, speeds in bytes/s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from truecluster.api import DType

from .memory import NodeFacts
from .planning import Planned
from .session import NodeSession


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


def node_view(session: NodeSession, spans: Mapping[str, str]) -> dict[str, Any]:
    """One node; ``span`` is null where it hosts nothing."""
    facts = session.facts()
    return {
        "id": session.id,
        "hostname": session.hello.hostname,
        "device": session.device,
        "dtypes": [dtypes.compute.value for dtypes in session.hello.dtypes],
        "free": facts.free,
        "max_memory": facts.bound,
        "speed": facts.speed,
        "span": spans.get(session.id),
    }


def cluster_view(name: str, sessions: Sequence[NodeSession], planned: Planned | None) -> dict[str, Any]:
    """Every node that is there, and the plan at work, null while there is none."""
    plan = None if planned is None else plan_view(planned, name)
    spans = {} if plan is None else {stage["node"]: stage["span"] for stage in plan["stages"]}
    return {"model": name, "nodes": [node_view(session, spans) for session in sessions], "plan": plan}


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
