"""Answers of ``GET /cluster`` for whoever shows them."""

from __future__ import annotations

from typing import Any

EMPTY: dict[str, Any] = {
    "model": "tiny",
    "state": "waiting",
    "nodes": [],
    "stages": [],
    "edges": [],
    "plan": None,
    "progress": [],
    "faults": [],
    "requests": {"waiting": 0, "running": 0},
    "pages": {"held": 0, "total": 0},
    "tokens": {"generated": 0, "generated_per_second": None},
    "steps": {"stalled_seconds": None},
    "uptime_seconds": 1.0,
}
"""What the page shows of ``GET /cluster``; docs/cluster.md has all of it."""

SHARE = {"device": "cpu", "weights": 0, "ends": 0, "state": 0, "needed": 1, "free": 4}
NODE = {"hostname": "h", "device": "cpu", "state": "spare"}


def cluster_of(*spans: tuple[str, str], spare: str, **more: object) -> dict[str, Any]:
    """A view of nodes with what they host."""
    stages = [{"node": node, "span": span, "busy_share": 0.2} for node, span in spans]
    shares = [{**SHARE, "node": node} for node in dict.fromkeys(node for node, _ in spans)]
    nodes = [{**NODE, "id": share["node"]} for share in shares] + [{**NODE, "id": spare}]
    plan = {"stages": shares, "context": 4096}
    return {**EMPTY, "state": "running", "nodes": nodes, "stages": stages, "plan": plan, **more}
