"""Stages and edges of a run, against the table of the orchestration specification (section 3)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._plan import EdgeKind, Route, build_plan
from truecluster.api import COORDINATOR, DType, Dtypes, Placement, Span

FP32, FP16, BF16 = (Dtypes(dtype, dtype) for dtype in (DType.FP32, DType.FP16, DType.BF16))

PLACEMENTS = (
    Placement(COORDINATOR, Span(0, 0, embed=True)),
    Placement("a", Span(0, 2)),
    Placement("b", Span(2, 4)),
    Placement(COORDINATOR, Span(4, 4, head=True)),
)
DTYPES = {COORDINATOR: FP32, "a": FP16, "b": BF16}


def test_an_edge_carries_what_both_of_its_ends_can_hold():
    def carried(**dtypes):
        plan = build_plan(PLACEMENTS, run=7, model="toy", transport="tcp", dtypes=DTYPES | dtypes)
        assert [s.dtypes for s in plan.stages] == [(DTYPES | dtypes)[p.node] for p in PLACEMENTS]
        return [edge.dtype.value for edge in plan.edges]

    assert carried() == ["int32", "fp32", "fp32", "fp32", "int32"]  # neither of fp16 and bf16 holds the other
    assert carried(b=FP16) == ["int32", "fp32", "fp16", "fp32", "int32"]
    assert carried(b=Dtypes(DType.FP16, DType.FP32)) == ["int32", "fp32", "fp32", "fp32", "int32"]
    assert carried(coordinator=BF16, b=BF16) == ["int32", "fp32", "fp32", "bf16", "int32"]


def test_a_run_with_both_ends_at_the_coordinator():
    plan = build_plan(PLACEMENTS, run=7, model="toy", transport="tcp", dtypes=DTYPES, threads={"a": 2})
    assert [(e.id, e.kind, e.producer, e.consumer) for e in plan.edges] == [
        ("7.0", EdgeKind.TOKEN_IN, None, 0),
        ("7.1", EdgeKind.ACTIVATION, 0, 1),
        ("7.2", EdgeKind.ACTIVATION, 1, 2),
        ("7.3", EdgeKind.ACTIVATION, 2, 3),
        ("7.4", EdgeKind.TOKEN_OUT, 3, None),
    ]
    assert {(e.transport, e.route.value) for e in plan.edges} == {("tcp", "direct")}
    assert [(s.inbound, s.outbound) for s in plan.stages] == [
        ("7.0", "7.1"),
        ("7.1", "7.2"),
        ("7.2", "7.3"),
        ("7.3", "7.4"),
    ]
    assert [(s.node, s.threads) for s in plan.stages] == [
        (COORDINATOR, None),
        ("a", 2),
        ("b", None),
        (COORDINATOR, None),
    ]
    assert plan.nodes == (COORDINATOR, "a", "b")
    assert plan.depth == 5
    assert plan.edge("7.2").consumer == 2


def test_edges_between_hosts_take_the_route_that_is_known_for_them():
    known = {
        (COORDINATOR, "a"): Route.REVERSED,
        ("a", "b"): Route.RELAYED,
        ("b", COORDINATOR): Route.DIRECT,
    }
    plan = build_plan(PLACEMENTS, run=7, model="toy", transport="tcp", dtypes=DTYPES, route=lambda *hosts: known[hosts])
    assert [e.route.value for e in plan.edges] == ["direct", "reversed", "relayed", "direct", "direct"]
    assert [(e.dials("producer"), e.dials("consumer")) for e in plan.edges[1:4]] == [
        (False, True),
        (True, True),
        (True, False),
    ]


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 1000))
def test_every_edge_has_two_ends_that_agree(count, run):
    placements = [Placement(str(i), Span(i, i + 1, i == 0, i == count - 1)) for i in range(count)]
    nodes = {placement.node: FP32 for placement in placements}
    plan = build_plan(placements, run=run, model="toy", transport="tcp", dtypes=nodes)
    assert len({edge.id for edge in plan.edges}) == count + 1
    for stage in plan.stages:
        assert plan.edge(stage.inbound).consumer == stage.index
        assert plan.edge(stage.outbound).producer == stage.index
        assert (stage.count, stage.span) == (count, placements[stage.index].span)
    assert plan.edge(plan.stages[0].inbound).producer is None
    assert plan.edge(plan.stages[-1].outbound).consumer is None
