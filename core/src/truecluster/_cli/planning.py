"""The body of ``tc plan``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from truecluster._cluster.memory import NodeFacts
from truecluster._cluster.model import ClusterModel, ModelOptions, load_model
from truecluster._cluster.planning import Planned, Planning, make_planner
from truecluster._cluster.profile import measure
from truecluster._cluster.settings import RunSettings
from truecluster._cluster.view import plan_view, read_node
from truecluster._node.devices import Devices
from truecluster._plan import PROCESS, Room, kind_of, process_bytes
from truecluster._registry import Registry
from truecluster.api import COORDINATOR, AddressError, DType, Limits, PlanError, RequestError

from .columns import aligned, scaled
from .options import say

SIZES = ("weights", "ends", "state", "workspace", "process", "needed", "free", "margin")


@attrs.frozen(kw_only=True)
class Question:
    """What is to be planned. ``given`` are (device, free bytes, speed) of nodes, or ``view`` is a running cluster's."""

    planner: str
    planner_options: Mapping[str, str]
    limits: Limits
    room: Room
    given: Sequence[tuple[str, int | None, float | None]]
    view: Mapping[str, Any] | None


def running(view: Mapping[str, Any]) -> dict[str, Any]:
    """The plan that a cluster runs. Raises `RequestError` where it has none yet."""
    plan = view.get("plan")
    if not isinstance(plan, dict):
        raise RequestError(
            f"the cluster has {len(view['nodes'])} nodes and no plan at work yet: wait until it is ready, or name a "
            "model with --model to plan it over these nodes"
        )
    return plan


def planned(registry: Registry, options: ModelOptions, question: Question) -> dict[str, Any]:
    """As `plan_view`. Raises `PlanError` with the numbers where it doesn't fit."""
    for device, *_ in question.given:
        registry.spec("device", kind_of(device))
    planner = make_planner(registry, question.planner, question.planner_options)
    model = load_model(registry, options)
    with model.bound.checkpoint:
        devices = Devices(registry)
        here, sequences = devices.open(devices.choose("cpu"), None), question.room.sequences
        planning = Planning(
            planner=planner,
            name=question.planner,
            measured=measure(model, registry, here, RunSettings().max_tokens, sequences),
            limits=question.limits,
            room=question.room,
            own=NodeFacts(id=COORDINATOR, device="cpu", place=None, free=None),
        )
        found = _plan(planning, question, model)
    if found.fitted.reduction:
        say(found.fitted.reduction)
    return plan_view(found, model.name)


def _plan(planning: Planning, question: Question, model: ClusterModel) -> Planned:
    try:
        return planning.plan(*_nodes(question, model))
    except PlanError as error:
        if question.view is not None:
            raise
        raise PlanError(
            f"{error}. Of what was given, {question.room.reserve:.0%} is left alone, and on a cpu {PROCESS:,} bytes "
            "are the process's own"
        ) from None


def _nodes(question: Question, model: ClusterModel) -> tuple[list[NodeFacts], list[DType]]:
    """Each node, and what it computes in."""
    if question.view is None:
        facts = [_given(number, *each) for number, each in enumerate(question.given, 1)]
        return facts, [DType.FP32 if node.device == "cpu" else model.dtype for node in facts]
    try:
        read = [read_node(node, model.dtype) for node in question.view["nodes"]]
    except (KeyError, TypeError) as error:
        raise AddressError(f"the cluster's answer isn't of this version: {error!r}; update one of the two") from None
    return [facts for facts, _ in read], [compute for _, compute in read]


def _given(number: int, device: str, memory: int | None, speed: float | None) -> NodeFacts:
    """A machine of its own, on which so much is free before the node starts."""
    free = None if memory is None else max(0, memory - process_bytes(device))
    return NodeFacts(id=f"node-{number}", device=device, place=number, free=free, speed=speed)


def as_json(plan: Mapping[str, Any]) -> str:
    """Sizes in bytes, lengths in tokens, speeds in bytes of weights a second."""
    return json.dumps(plan, indent=1)


def as_table(plan: Mapping[str, Any]) -> str:
    """Aligned columns, sizes in MB, speeds in GB/s, and what they mean."""
    heads = ("NODE", "DEVICE", "SPAN", *(f"{size.upper()} MB" for size in SIZES), "GB/S")
    lines = [heads, *(_cells(stage) for stage in plan["stages"])]
    return "\n".join([*aligned(lines, words=3), "", _explained(plan)])


def _cells(stage: Mapping[str, Any]) -> tuple[str, ...]:
    sizes = (scaled(stage[size], 1e6) for size in SIZES)
    return (stage["node"], stage["device"], stage["span"], *sizes, scaled(stage["speed"], 1e9))


def _explained(plan: Mapping[str, Any]) -> str:
    return (
        f"{plan['model']}: context {plan['context']:,} tokens, {plan['sequences']} requests at once, state for "
        f"{plan['state_tokens']:,} tokens in all.\nNEEDED is the sum of the columns before it, PROCESS what Python and "
        "torch take by themselves. FREE is what a node may use,\nits reserve left alone, and MARGIN what stays of it. "
        "GB/S is how much\nof weights a node was measured to read in a second, or what was given."
    )
