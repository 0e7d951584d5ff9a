"""Whether a planner kept the rules of `truecluster.api.Planner.plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from truecluster.api import COORDINATOR, Limits, ModelProfile, NodeProfile, Placement, PlanError, Span


def validate(
    placements: Sequence[Placement],
    model: ModelProfile,
    nodes: Sequence[NodeProfile],
    limits: Limits,
    *,
    planner: str,
) -> None:
    """Raise `PlanError` naming ``planner`` and the first rule that its placements break, with the numbers."""
    for problem in _problems(placements, model, nodes, limits):
        raise PlanError(f"planner {planner!r} made a plan that can't be used: {problem}; choose another --planner")


def _problems(
    placements: Sequence[Placement], model: ModelProfile, nodes: Sequence[NodeProfile], limits: Limits
) -> Iterator[str]:
    layers = len(model.blocks)
    hosts = placements[1:-1] if limits.head == "coordinator" else placements
    if limits.head == "coordinator":
        yield from _coordinator_ends(placements, layers)
    else:
        yield from _node_ends(placements)
    yield from _cover(hosts, layers)
    yield from _known(hosts, nodes, limits)
    yield from _memory(hosts, model, nodes)


def _coordinator_ends(placements: Sequence[Placement], layers: int) -> Iterator[str]:
    first, last = Span(0, 0, embed=True), Span(layers, layers, head=True)
    if len(placements) < 3:
        yield f"it has {len(placements)} stages; embed and head at the coordinator need one between them"
    elif placements[0] != Placement(COORDINATOR, first):
        yield f"its first stage is {_named(placements[0])}, not embed on {COORDINATOR!r}"
    elif placements[-1] != Placement(COORDINATOR, last):
        yield f"its last stage is {_named(placements[-1])}, not head on {COORDINATOR!r}"
    for placement in placements[1:-1]:
        if placement.span.embed or placement.span.head:
            yield f"{_named(placement)} holds an end that belongs to {COORDINATOR!r}"


def _node_ends(placements: Sequence[Placement]) -> Iterator[str]:
    embeds = [i for i, placement in enumerate(placements) if placement.span.embed]
    heads = [i for i, placement in enumerate(placements) if placement.span.head]
    if not placements:
        yield "it has no stages"
    elif embeds != [0]:
        yield f"embed is on stages {embeds}, not on the first alone"
    elif heads != [len(placements) - 1]:
        yield f"head is on stages {heads} of {len(placements)}, not on the last alone"


def _cover(hosts: Sequence[Placement], layers: int) -> Iterator[str]:
    """Every block once, in order."""
    reached = 0
    for placement in hosts:
        if placement.span.stop <= placement.span.start:
            yield f"{_named(placement)} has no block"
        if placement.span.start != reached:
            yield f"{_named(placement)} begin at block {placement.span.start}, not at {reached}"
        reached = placement.span.stop
    if reached != layers:
        yield f"its stages end at block {reached}, but the model has {layers}"


def _known(hosts: Sequence[Placement], nodes: Sequence[NodeProfile], limits: Limits) -> Iterator[str]:
    known = [node.id for node in nodes]
    for node, count in Counter(placement.node for placement in hosts).items():
        if node not in known:
            yield f"node {node!r} doesn't exist; there are {', '.join(map(repr, known)) or 'none'}"
        if count > 1:
            yield f"node {node!r} hosts {count} stages, at most one is allowed"
    if limits.max_nodes is not None and len(hosts) > limits.max_nodes:
        yield f"it uses {len(hosts)} nodes, at most {limits.max_nodes} are allowed"


def _memory(hosts: Sequence[Placement], model: ModelProfile, nodes: Sequence[NodeProfile]) -> Iterator[str]:
    memory = {node.id: node.memory for node in nodes}
    for placement in hosts:
        there, needed = memory.get(placement.node), model.needed(placement.span)
        if there is not None and needed > there:
            yield f"{_named(placement)} need {needed} bytes, {there} are there"


def _named(placement: Placement) -> str:
    return f"{str(placement.span) or 'an empty span'} on node {placement.node!r}"
