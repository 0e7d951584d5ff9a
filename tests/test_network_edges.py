"""Edges over real processes: direct, with the dialling end reversed, relayed by the coordinator, and over IPv6."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import psutil
from clusters import Layout, cluster
from commands import Command, Commands, Served, free_port

PROMPTS = [list(range(40)), list(b"Hello"), [7]]
UNDIALABLE = ("--edge-host", "none")
ELSEWHERE = ("--advertise-host", "127.0.0.9")
"""An address where no edge of this machine listens."""


def served(tc: Commands, model: Path, *nodes: tuple[object, ...], cluster: tuple[object, ...] = ()) -> Served:
    """A cluster that answers, of nodes ``a``, ``b``, … with options of their own."""
    command, api, port = tc.cluster(model, "--max-nodes", len(nodes), *cluster)
    for name, options in zip("abcdef", nodes, strict=False):
        tc.node(port, name, *options)
    command.wait_for(f"^{'abcdef'[len(nodes) - 1]}: blocks", timeout=120)
    return Served(command, api, port)


def edges_said(command: Command) -> list[str]:
    return re.findall(r"edge (.*)$", command.err, re.MULTILINE)


def relay_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("relay")]


def test_every_route_gives_the_same_tokens(tiny: Path, tmp_path: Path) -> None:
    """Bitwise: a route changes how bytes travel, and nothing else."""
    answers = {}
    for options in ((), UNDIALABLE, ELSEWHERE):
        with cluster(tiny, tmp_path, Layout(nodes=3, transport="tcp", node_options=options)) as made:
            answers[options] = made.answer(PROMPTS, 24)
            with made.run() as run:
                routes = [edge.route.value for edge in run.plan.edges]
            assert not relay_threads()
        assert (
            routes[1:-1]
            == {
                (): ["direct"] * 4,
                UNDIALABLE: ["reversed", "relayed", "relayed", "direct"],
                ELSEWHERE: ["reversed", "relayed", "relayed", "direct"],
            }[options]
        )
    assert answers[()] == answers[UNDIALABLE] == answers[ELSEWHERE]


def test_a_dial_that_fails_is_said_and_the_edge_is_relayed(tc: Commands, tiny: Path) -> None:
    made = served(tc, tiny, (), ELSEWHERE)
    assert made.complete().status_code == 200
    assert edges_said(made.cluster)[0] == "a → b: the coordinator relays it"
    assert "can't reach 127.0.0.9:" in made.cluster.err


def test_nodes_that_nobody_can_dial_listen_nowhere(tc: Commands, tiny: Path) -> None:
    """And with the cluster nothing of them is left."""
    made = served(tc, tiny, UNDIALABLE, UNDIALABLE)
    assert made.complete().status_code == 200
    nodes = [process for process in tc.left() if "node" in process.cmdline()]
    listening = [c for node in nodes for c in node.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert len(nodes) == 2
    assert not listening
    assert edges_said(made.cluster) == ["coordinator → a: a dials coordinator", "a → b: the coordinator relays it"]
    assert made.cluster.send(signal.SIGINT).code == 130


def test_a_relayed_run_that_loses_a_node_ends_with_its_relay(tc: Commands, tiny: Path) -> None:
    made = served(tc, tiny, UNDIALABLE, UNDIALABLE)
    next(process for process in tc.left() if "b" in process.cmdline()).kill()
    made.cluster.wait_for("the run failed: node b was lost")
    tc.node(made.port, "b", *UNDIALABLE)
    made.cluster.wait_for("^b: blocks", count=2)
    answer = made.complete()
    assert answer.status_code == 200, answer.text + made.cluster.err


def test_edges_listen_where_they_are_told(tc: Commands, tiny: Path) -> None:
    port = free_port()
    options = ("--edge-host", "0.0.0.0", "--edge-port", port, "--advertise-host", "127.0.0.1")
    made = served(tc, tiny, (), options)
    assert made.complete().status_code == 200
    assert not edges_said(made.cluster)
    listening = [
        connection.laddr
        for process in tc.left()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert ("0.0.0.0", port) in listening
