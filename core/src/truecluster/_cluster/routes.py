"""Who dials whom: what nodes say of their addresses, and what was learned when a dial failed."""

from __future__ import annotations

from collections.abc import Mapping

from truecluster._plan import EdgePlan, Route, RunPlan
from truecluster._wire.addresses import is_loopback
from truecluster.api import COORDINATOR, NodeError

from .session import NodeSession


class EdgeUnreachable(NodeError):
    """One end of ``edge`` could not dial the other."""

    def __init__(self, edge: str, message: str) -> None:
        super().__init__(message)
        self.edge = edge


class Routes:
    """The route of every edge, from what is known so far. It learns only for as long as a node keeps its session."""

    def __init__(self) -> None:
        self._failed: set[tuple[int, int]] = set()

    def of(self, producer: NodeSession | None, consumer: NodeSession | None) -> Route:
        """``None`` is the coordinator. Whoever can be dialled is; a relay is for two nodes that both can't be."""
        if self._reaches(producer, consumer):
            return Route.DIRECT
        if self._reaches(consumer, producer):
            return Route.REVERSED
        node = producer or consumer
        if producer is not None and consumer is not None:
            return Route.RELAYED
        raise NodeError(
            f"node {node.id if node else ''} and the coordinator can't dial each other for edges: open one of them "
            "in its firewall (a node's port is --edge-port, its address --advertise-host), then start the node again"
        )

    def learn(self, error: EdgeUnreachable, plan: RunPlan, sessions: Mapping[str, NodeSession]) -> str:
        """Take another route from now on; returns what that means, for the user."""
        edge = plan.edge(error.edge)
        producer, consumer = (sessions.get(name) for name in named_ends(plan, edge))
        dialler, peer = (producer, consumer) if edge.route is Route.DIRECT else (consumer, producer)
        self._failed.add((_number(dialler), _number(peer)))
        if dialler is not None and peer is not None:
            self._failed.add((_number(peer), _number(dialler)))  # another try would cost as long again
        return f"{error}; {described(self.of(producer, consumer), *named_ends(plan, edge))}"

    def _reaches(self, dialler: NodeSession | None, peer: NodeSession | None) -> bool:
        if (_number(dialler), _number(peer)) in self._failed:
            return False
        if peer is None:
            return True  # it is where its nodes have joined
        host = peer.hello.edge_host
        return host is not None and (not is_loopback(host) or (_is_here(dialler) and _is_here(peer)))


def named_ends(plan: RunPlan, edge: EdgePlan) -> tuple[str, str]:
    """Names of the producer and the consumer."""
    producer, consumer = (
        COORDINATOR if stage is None else plan.stages[stage].node for stage in (edge.producer, edge.consumer)
    )
    return producer, consumer


def described(route: Route, producer: str, consumer: str) -> str:
    """What a route means, for the user."""
    how = {
        Route.DIRECT: f"{producer} dials {consumer}",
        Route.REVERSED: f"{consumer} dials {producer}",
        Route.RELAYED: "the coordinator relays it",
    }
    return f"edge {producer} → {consumer}: {how[route]}"


def _is_here(session: NodeSession | None) -> bool:
    """Whether it runs on the coordinator's machine, as far as its connection tells."""
    return session is None or is_loopback(session.local_host)


def _number(session: NodeSession | None) -> int:
    return 0 if session is None else session.number
