"""Alive and making progress are two things: nodes that hold their interpreter, hang, stop or vanish."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import Commands, Served, free_port, until
from saboteurs import hold_the_interpreter, in_loading, in_steps, saboteur

pytestmark = pytest.mark.timeout(180)
LONGER = 14
"""Seconds, more than the ten that a node without work may be silent."""


def test_a_step_that_holds_the_interpreter_is_borne(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    """DIST-04: a busy healthy worker isn't declared dead."""
    cluster, api, port = tc.cluster(tiny, "--max-nodes", 2)
    tc.node(port, "a")
    tc.node(port, "b", env=saboteur(tmp_path / "site", in_steps(hold_the_interpreter(LONGER))))
    cluster.wait_for("^b: blocks")
    began = time.monotonic()
    assert Served(cluster, api, port).complete().status_code == 200
    assert time.monotonic() - began > LONGER
    assert "lost" not in cluster.err


def test_loading_that_holds_the_interpreter_is_borne(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    """DIST-04: loading weights counts as busy; the other node waits for it."""
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 2)
    tc.node(port, "a")
    tc.node(port, "b", env=saboteur(tmp_path / "site", in_loading(hold_the_interpreter(LONGER))))
    cluster.wait_for("^b: blocks")
    assert "lost" not in cluster.err


def test_a_step_that_is_never_answered_ends_the_run(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    """The node answers every heartbeat, and the run goes on with the others."""
    cluster, api, port = tc.cluster(tiny, "--min-nodes", 1, "--step-timeout", 4, "--stop-timeout", 2)
    bad = tc.node(port, "a", env=saboteur(tmp_path / "site", in_steps("time.sleep(600)")))
    cluster.wait_for("^a: blocks")
    tc.node(port, "b")
    cluster.wait_for("b waits as a spare")
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(Served(cluster, api, port).complete)
        health = until(api, "health", lambda health: (health["stalled_seconds"] or 0) > 1)
        assert (health["alive"], health["connected"]) == (True, 2)
        assert asked.result().status_code == 500
    cluster.wait_for(
        r"the run failed: step \d+ was not answered within 4 s: node a has been busy with it for \d+ s; if .*--step-"
    )
    cluster.wait_for("^b: blocks 0-3")
    view = until(api, "cluster", lambda view: view["state"] == "running")
    assert view["run"]["number"] == 2
    faults = [fault["message"] for fault in view["faults"]]  # and that node a left, before or after it
    assert any("was not answered within 4 s: node a" in fault for fault in faults), faults
    ended = bad.end(30)
    assert ended.code == 1
    assert "didn't stop within 2 s" in ended.err
    assert Served(cluster, api, port).complete().status_code == 200


def test_a_node_that_does_not_get_ready_is_replaced(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    cluster, api, port = tc.cluster(tiny, "--min-nodes", 1, "--ready-timeout", 3, "--stop-timeout", 2)
    tc.node(port, "a", env=saboteur(tmp_path / "site", in_loading("time.sleep(600)")))
    view = until(api, "cluster", lambda view: "loading weights on a" in [task["task"] for task in view["progress"]])
    assert (view["state"], [node["state"] for node in view["nodes"]]) == ("waiting-ready", ["loading"])
    totals = {task["task"]: task["total"] for task in view["progress"]}
    assert totals["loading weights on a"] == view["stages"][1]["weights"]
    cluster.wait_for(
        r"could not start: not ready 3 s after all weights were sent: node a has loaded 0\.0 of 0\.2 MB; .*--ready-"
    )
    tc.node(port, "b")
    cluster.wait_for("^b: blocks 0-3")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_node_that_loads_ends_at_once(
    tc: Commands, tiny: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """DIST-19: SIGTERM exits within seconds even while loading."""
    port = tc.cluster(tiny)[2]
    sleeps = "print('loading', flush=True); time.sleep(600)"
    node = tc.node(port, "a", env=saboteur(tmp_path / "site", in_loading(sleeps)))
    until = time.monotonic() + 60
    while "loading" not in node.out:
        assert time.monotonic() < until, node.err
        time.sleep(0.05)
    assert node.send(number).code in (code, 1)
    assert "Traceback" not in node.err


def test_a_stopped_node_is_lost_and_joins_again_when_it_goes_on(tc: Commands, tiny: Path) -> None:
    """DIST-03: SIGSTOP."""
    cluster, _, port = tc.cluster(tiny, "--min-nodes", 1)
    node = tc.node(port, "a")
    cluster.wait_for("^a: blocks")
    node.process.send_signal(signal.SIGSTOP)
    cluster.wait_for("the run failed: node a was lost: no word for 1[01] s")  # whoever looks may come late
    node.process.send_signal(signal.SIGCONT)
    cluster.wait_for("^a: blocks", count=2)


def test_a_coordinator_that_opens_its_model_slowly_keeps_its_nodes(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    """DIST-12: it listens first; a node waits for longer than a handshake may take."""
    opened = tmp_path / "opened"
    slow = f"""
        import pathlib, time
        from truecluster._text import TextModel

        whole = TextModel.load

        def load(*arguments, **more):
            while not pathlib.Path({str(opened)!r}).exists():
                time.sleep(0.05)
            return whole(*arguments, **more)

        TextModel.load = load
    """
    port = free_port()
    cluster = tc.start(
        *("cluster", "--model", tiny, "--api-port", 0, "--node-port", port, "--max-nodes", 1),
        env=saboteur(tmp_path / "site", slow),
    )
    cluster.wait_for("architecture")
    node = tc.node(port, "a")
    node.wait_for("the coordinator doesn't take nodes yet")
    time.sleep(11)
    opened.touch()
    cluster.wait_for("^a: blocks 0-3")
    assert "trying again" not in node.err
