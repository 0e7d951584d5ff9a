"""The body of ``tc plan``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import attrs

from truecluster._cluster.model import ModelOptions, load_model
from truecluster._cluster.planning import checked_plan, make_planner
from truecluster._cluster.profile import measure
from truecluster._cluster.provision import RunSettings
from truecluster._node.devices import Devices
from truecluster._registry import Registry
from truecluster.api import Limits, ModelProfile, NodeProfile, Placement


@attrs.frozen(kw_only=True)
class PlanRow:
    """One stage; sizes in bytes, ``memory`` and ``margin`` ``None`` where a node's memory isn't known."""

    node: str
    device: str
    span: str
    weights: int
    state: int
    needed: int
    memory: int | None
    margin: int | None


def rows(
    registry: Registry,
    options: ModelOptions,
    planner: str,
    planner_options: Mapping[str, str],
    nodes: Sequence[tuple[str, str, int | None]],
    limits: Limits,
) -> list[PlanRow]:
    """Plan, and count. Raises `PlanError` with the numbers where it doesn't fit."""
    for _, device, _ in nodes:
        registry.spec("device", device.partition(":")[0])
    chosen = make_planner(registry, planner, planner_options)
    model = load_model(registry, options)
    with model.bound.checkpoint:
        devices = Devices(registry)
        profile, _ = measure(model, registry, devices.open(devices.choose("cpu"), None), RunSettings().max_tokens)
    profiles = [NodeProfile(id=id, device=device, memory=memory) for id, device, memory in nodes]
    placements = checked_plan(chosen, planner, profile, profiles, limits)
    return [_row(placement, profile, {p.id: p for p in profiles}) for placement in placements]


def _row(placement: Placement, model: ModelProfile, nodes: Mapping[str, NodeProfile]) -> PlanRow:
    node, span = nodes.get(placement.node), placement.span
    state = sum(part.state for part in model.blocks[span.start : span.stop])
    needed = model.needed(span)
    memory = node.memory if node else None
    return PlanRow(
        node=placement.node,
        device=node.device if node else "",
        span=str(span),
        weights=needed - state - model.workspace,
        state=state,
        needed=needed,
        memory=memory,
        margin=None if memory is None else memory - needed,
    )


def as_json(found: Sequence[PlanRow]) -> str:
    """One object with a list of stages."""
    return json.dumps({"stages": [attrs.asdict(row) for row in found]}, indent=1)


def as_table(found: Sequence[PlanRow]) -> str:
    """Aligned columns, sizes in MB."""
    heads = ("NODE", "DEVICE", "SPAN", "WEIGHTS MB", "STATE MB", "NEEDED MB", "MEMORY MB", "MARGIN MB")
    lines = [heads, *(_cells(row) for row in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cells(row: PlanRow) -> tuple[str, ...]:
    sizes = (row.weights, row.state, row.needed, row.memory, row.margin)
    return (row.node, row.device, row.span, *("-" if size is None else f"{size / 1e6:.1f}" for size in sizes))
