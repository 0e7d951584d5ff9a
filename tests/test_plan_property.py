"""DIST-16: random models over random nodes. Every plan covers the model once and fits by its own numbers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._cluster.memory import NodeFacts
from truecluster._cluster.planning import Planned, Planning, make_planner
from truecluster._plan import PROCESS, Measured, Room
from truecluster._registry import Registry
from truecluster.api import (
    COORDINATOR,
    Block,
    DType,
    Embed,
    Head,
    Limits,
    ModelProfile,
    Part,
    PartProfile,
    PlanError,
)

EVEN = make_planner(Registry.installed(), "even", {})
BYTES = st.integers(0, 10**7)


@st.composite
def models(draw: st.DrawFn) -> Measured:
    """Up to 12 blocks, some with paged state, some with state of fixed size."""
    layers = draw(st.integers(1, 12))
    parts: list[Part] = [Embed(), *map(Block, range(layers)), Head()]
    blocks = st.lists(st.integers(0, 4096), min_size=layers, max_size=layers)
    return Measured(
        stateless=ModelProfile(
            name="random",
            parts=tuple(PartProfile(part=part, wire=0, resident=draw(BYTES)) for part in parts),
            tied=draw(st.booleans()),
            workspace=draw(BYTES),
        ),
        page_elements=(0, *draw(blocks), 0),
        sequence_bytes=(0, *draw(blocks), 0),
        compute=DType.FP32,
        context=draw(st.integers(1, 10**5)),
        page_tokens=32,
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeFacts]:
    """Nodes of a few machines: without memory, with a byte, with plenty, with an unknown amount."""
    free = st.one_of(st.none(), st.sampled_from([0, 1, 10**12]), st.integers(0, 10**8))
    bound = st.one_of(st.none(), st.integers(1, 2 * PROCESS))
    return [
        NodeFacts(
            id=f"n{i}", device=draw(st.sampled_from(["cpu", "cuda:0"])), place=draw(st.integers(0, 3)),
            free=draw(free), bound=draw(bound),
        )
        for i in range(draw(st.integers(0, 6)))
    ]  # fmt: skip


ROOMS = st.builds(
    Room,
    sequences=st.integers(1, 20),
    kv_bytes=st.one_of(st.none(), st.integers(1, 10**9)),
    reserve=st.floats(0, 0.9),
    unknown=st.one_of(st.none(), BYTES),
)
LIMITS = st.builds(
    Limits, head=st.sampled_from(["coordinator", "last-stage"]), max_nodes=st.one_of(st.none(), st.integers(1, 6))
)


@settings(max_examples=300, deadline=None)
@given(models(), clusters(), ROOMS, LIMITS, st.sampled_from([DType.FP32, DType.FP16]))
def test_every_plan_fits_by_its_own_numbers(
    model: Measured, nodes: list[NodeFacts], room: Room, limits: Limits, dtype: DType
) -> None:
    own = NodeFacts(id=COORDINATOR, device="cpu", place=0, free=10**9)
    planning = Planning(planner=EVEN, name="even", measured=model, limits=limits, room=room, own=own)
    try:
        planned = planning.plan(nodes, [dtype for _ in nodes])
    except PlanError:
        return
    placed = [part for placement in planned.fitted.placements for part in placement.span.parts()]
    assert placed == [part.part for part in model.stateless.parts]
    for share in planned.shares:
        assert share.needed == share.weights + share.ends + share.state + share.workspace + share.process
        assert share.margin is None or share.margin >= 0
    _check_machines(planned, nodes, room)
    state = sum(share.state for share in planned.shares)
    assert room.kv_bytes is None or state <= room.kv_bytes
    assert planning.plan(nodes, [dtype for _ in nodes]) == planned


def _check_machines(planned: Planned, nodes: list[NodeFacts], room: Room) -> None:
    """What is planned on one machine isn't more than what is free there, and no node gets more than it allows."""
    shares = {share.node: share for share in planned.shares}
    hosts = [node for node in nodes if node.id in shares]
    for node in hosts:
        assert node.bound is None or shares[node.id].needed <= node.bound
    for place in {node.place for node in hosts}:
        there = [node for node in hosts if node.place == place]
        ends = shares[COORDINATOR].needed - PROCESS if place == 0 and COORDINATOR in shares else 0
        free = {node.free for node in nodes if node.place == place}
        if len(free) == 1 and (bytes := free.pop()) is not None:
            assert sum(shares[node.id].needed - shares[node.id].process for node in there) + ends <= bytes
