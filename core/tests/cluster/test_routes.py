"""Which end of an edge dials, from what nodes say and from dials that failed."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest
from hellos import HELLO

from truecluster._cluster.routes import EdgeUnreachable, Routes
from truecluster._cluster.session import NodeSession
from truecluster._plan import EdgeKind, EdgePlan, Route, RunPlan, StagePlan
from truecluster.api import COORDINATOR, DType, Dtypes, NodeError, Span

NUMBERS = itertools.count(1)
HERE, LAN = "127.0.0.1", "192.168.1.1"
"""The coordinator's own address, as two nodes know it."""


def node(name: str, edge_host: str | None, coordinator: str = LAN) -> NodeSession:
    hello = attrs.evolve(HELLO, node_id=name, edge_host=edge_host)
    return NodeSession(next(NUMBERS), hello, control=None, local_host=coordinator)  # type: ignore[arg-type]


LAN_NODE, OTHER = node("lan", "192.168.1.5"), node("other", "192.168.1.6")
NAT, NAT_TOO = node("nat", None), node("nat-too", None)
LOCAL, LOCAL_TOO = node("local", HERE, HERE), node("local-too", "::1", "::1")


@pytest.mark.parametrize(
    ("producer", "consumer", "route"),
    [
        (LAN_NODE, OTHER, Route.DIRECT),
        (NAT, OTHER, Route.DIRECT),
        (LAN_NODE, NAT, Route.REVERSED),
        (NAT, NAT_TOO, Route.RELAYED),
        (None, LAN_NODE, Route.DIRECT),
        (None, NAT, Route.REVERSED),
        (NAT, None, Route.DIRECT),
        (LOCAL, LOCAL_TOO, Route.DIRECT),
        (None, LOCAL, Route.DIRECT),
        (LOCAL, LAN_NODE, Route.DIRECT),
        (LAN_NODE, LOCAL, Route.REVERSED),  # its 127.0.0.1 is another machine's
        (NAT, LOCAL, Route.RELAYED),
    ],
)
def test_whoever_can_be_dialled_is(producer: Any, consumer: Any, route: Route) -> None:
    assert Routes().of(producer, consumer) is route


def plan_of(*names: str, route: Route = Route.DIRECT) -> RunPlan:
    """A stage per name, one after another, and edges between them."""
    fp32 = Dtypes(DType.FP32, DType.FP32)
    stages = tuple(
        StagePlan(
            index=i,
            count=len(names),
            node=name,
            span=Span(i, i + 1),
            inbound=f"1.{i}",
            outbound=f"1.{i + 1}",
            dtypes=fp32,
        )
        for i, name in enumerate(names)
    )
    ends = [None, *range(len(names)), None]
    edges = tuple(
        EdgePlan(
            id=f"1.{i}",
            kind=EdgeKind.ACTIVATION,
            producer=ends[i],
            consumer=ends[i + 1],
            transport="tcp",
            dtype=DType.FP32,
            route=route,
        )
        for i in range(len(names) + 1)
    )
    return RunPlan(run=1, model="m", stages=stages, edges=edges)


def test_between_nodes_a_dial_that_failed_is_not_tried_again_in_either_direction() -> None:
    routes, sessions = Routes(), {"lan": LAN_NODE, "other": OTHER}
    said = routes.learn(EdgeUnreachable("1.1", "no answer"), plan_of("lan", "other"), sessions)
    assert said == "no answer; edge lan → other: the coordinator relays it"
    assert routes.of(LAN_NODE, OTHER) is Route.RELAYED
    assert routes.of(OTHER, LAN_NODE) is Route.RELAYED
    assert routes.of(None, OTHER) is Route.DIRECT


def test_a_node_that_the_coordinator_cannot_dial_dials_it() -> None:
    routes, sessions = Routes(), {"lan": LAN_NODE}
    said = routes.learn(EdgeUnreachable("1.0", "no answer"), plan_of("lan"), sessions)
    assert said == f"no answer; edge {COORDINATOR} → lan: lan dials {COORDINATOR}"
    assert routes.of(None, LAN_NODE) is Route.REVERSED


def test_a_node_that_comes_back_is_dialled_again() -> None:
    routes = Routes()
    routes.learn(EdgeUnreachable("1.1", ""), plan_of("lan", "other"), {"lan": LAN_NODE, "other": OTHER})
    assert routes.of(LAN_NODE, node("other", "192.168.1.6")) is Route.DIRECT


def test_where_neither_can_dial_the_other_the_remedy_is_named() -> None:
    routes, sessions = Routes(), {"nat": NAT}
    with pytest.raises(NodeError, match=r"node nat and the coordinator can't dial each other.*firewall"):
        routes.learn(EdgeUnreachable("1.1", "no answer"), plan_of("nat"), sessions)
