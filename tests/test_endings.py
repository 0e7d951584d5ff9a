"""However a command ends, nothing of it is left: by Ctrl-C in every phase, by SIGTERM, and without a word."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx
import psutil
import pytest
from commands import Command, Commands, Ended, Served, until, wait_gone

LONG = 3000
"""Tokens that take far longer than a test does."""


@contextmanager
def nothing_left(command: Command) -> Iterator[None]:
    """When the block ends, the command and all that it started are gone, and so are their ports, which end with them.

    A port that was free could be anybody's by now; a process that isn't of the family any more is found by ``tc``.
    """
    family = command.family()
    yield
    assert not wait_gone(family)


def interrupted(command: Command) -> Ended:
    """The end by one Ctrl-C: no traceback, no complaint of a worker."""
    with nothing_left(command):
        ended = command.send(signal.SIGINT)
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    assert not re.search("^tc: |Exception|Fatal", ended.err, re.MULTILINE), ended.err
    return ended


def words(command: Command, count: int = 20, timeout: float = 60) -> None:
    """Wait until an answer is under way."""
    until = time.monotonic() + timeout
    while len(command.out) < count:
        assert command.process.poll() is None, command.err
        assert time.monotonic() < until, command.err
        time.sleep(0.05)


def started(command: Command, timeout: float = 60) -> None:
    """Wait until it has begun to work: its workers are what it starts first."""
    until = time.monotonic() + timeout
    while len(command.family()) < 2:
        assert time.monotonic() < until, command.err
        time.sleep(0.05)


def a_worker(command: Command) -> psutil.Process:
    """One of the workers, among whatever else the command has started."""
    return next(process for process in command.family() if "node" in process.cmdline())


def running(tc: Commands, model: Path, *arguments: object) -> Command:
    """``tc run`` in the middle of a long answer."""
    command = tc.start("run", "--model", model, "--max-tokens", LONG, "--threads", 1, "Tell me.", *arguments)
    words(command)
    return command


@pytest.mark.parametrize(
    ("phase", "arguments"),
    [("", []), ("architecture", []), ("^packing", ["--quant", "int4"])],
    ids=["starting", "opening", "packing"],
)
def test_ctrl_c_before_an_answer(tc: Commands, wide: Path, phase: str, arguments: list[str]) -> None:
    command = tc.start("run", "--model", wide, *arguments, "Tell me.")
    started(command)
    command.wait_for(phase)
    interrupted(command)


@pytest.mark.parametrize("transport", ["tcp", "memory"])
def test_ctrl_c_in_an_answer(tc: Commands, tiny: Path, transport: str) -> None:
    interrupted(running(tc, tiny, "--transport", transport))


@pytest.mark.parametrize("pause", [0, 0.001, 0.3])
def test_a_second_ctrl_c_tears_nothing_apart(tc: Commands, tiny: Path, pause: float) -> None:
    cluster, _, _ = tc.cluster(tiny, "--max-nodes", 1)
    cluster.wait_for("waiting for nodes")
    with nothing_left(cluster):
        cluster.process.send_signal(signal.SIGINT)
        time.sleep(pause)
        ended = cluster.send(signal.SIGINT)
    assert ended.code == 130, ended.err
    assert not re.search("Traceback|Exception", ended.err), ended.err


def test_ctrl_c_of_a_cluster_ends_its_nodes_in_peace(tc: Commands, tiny: Path) -> None:
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 1)
    node = tc.node(port, "a")
    cluster.wait_for("a: blocks 0-3")
    interrupted(cluster)
    ended = node.end(10)
    assert (ended.code, ended.err.count("tc:")) == (0, 0), ended.err


def test_ctrl_c_of_a_node(tc: Commands, tiny: Path) -> None:
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 1)
    node = tc.node(port, "a")
    cluster.wait_for("a: blocks 0-3")
    interrupted(node)
    cluster.wait_for("the run failed: node a was lost")
    interrupted(cluster)


def test_ctrl_c_of_a_cluster_that_waits_for_nodes(tc: Commands, tiny: Path) -> None:
    """It listens on every address, so the line to paste has one of this machine's that others can dial."""
    ports = ["--api-port", 0, "--node-port", 0]
    cluster = tc.start("cluster", "--model", tiny, "--node-host", "0.0.0.0", *ports)
    host, port = cluster.wait_for(r"^  tc node --cluster-host (\S+) --cluster-port ([0-9]+)$").groups()
    assert host not in ("0.0.0.0", "127.0.0.1", "localhost")
    socket.create_connection((host, int(port)), timeout=5).close()
    interrupted(cluster)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)])
def test_workers_end_with_their_parent(tc: Commands, tiny: Path, number: signal.Signals, code: int) -> None:
    command = running(tc, tiny)
    with nothing_left(command):
        ended = command.send(number)
    assert ended.code == code
    assert ("stopping" in ended.err) == (number == signal.SIGTERM)
    assert "tc: " not in ended.err
    assert "Traceback" not in ended.err


def test_workers_that_have_not_joined_end_with_their_parent(tc: Commands, tiny: Path) -> None:
    command = tc.start("run", "--model", tiny, "Tell me.")
    until = time.monotonic() + 30
    while len(command.family()) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(command.family()) == 3
    with nothing_left(command):
        command.send(signal.SIGKILL)
    assert "Traceback" not in command.err


def test_a_worker_killed_between_tokens_faults_the_run(tc: Commands, tiny: Path) -> None:
    command = running(tc, tiny)
    with nothing_left(command):
        a_worker(command).kill()
        ended = command.end(20)
    assert ended.code == 1
    assert re.search(r"^tc: worker-\d was killed by signal 9; .*memory", ended.err, re.MULTILINE), ended.err
    assert not re.search("lost|Traceback", ended.err), ended.err


def test_a_worker_killed_before_it_joins_is_noticed(tc: Commands, wide: Path) -> None:
    command = tc.start("run", "--model", wide, "--quant", "int4", "Tell me.")
    command.wait_for("architecture")
    with nothing_left(command):
        a_worker(command).kill()
        ended = command.end(20)
    assert ended.code == 1
    assert re.search(r"^tc: worker-\d was killed by signal 9", ended.err, re.MULTILINE), ended.err


@pytest.mark.parametrize("silence", [False, True], ids=["killed", "silent"])
def test_a_node_gives_up_a_coordinator_that_is_gone(tc: Commands, tiny: Path, silence: bool) -> None:
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 1, "--step-timeout", 5)
    node = tc.node(port, "a", "--join-timeout", 0)
    cluster.wait_for("a: blocks 0-3")
    cluster.process.send_signal(signal.SIGSTOP if silence else signal.SIGKILL)
    ended = node.end(40)
    assert ended.code == 1
    assert f"tc: lost the coordinator at 127.0.0.1:{port}: " in ended.err
    assert "Traceback" not in ended.err
    cluster.send(signal.SIGKILL)


@pytest.mark.parametrize("service", ["cluster", "run"])
def test_the_end_of_a_service_ends_its_requests_first(tc: Commands, tiny: Path, service: str) -> None:
    """The client learns that the server stops, whoever asked for it, and nobody sees a trace."""
    if service == "cluster":
        command, api, port = tc.cluster(tiny, "--max-nodes", 1)
        tc.node(port, "a")
        command.wait_for("a: blocks 0-3")
    else:
        command = tc.start("run", "--model", tiny, "--nodes", 1, "--serve", "--api-port", 0)
        api = int(command.wait_for(r"on http://127\.0\.0\.1:(\d+)/v1")[1])
        command.wait_for("worker-1: blocks 0-3")
    answers: list[httpx.Response] = []
    asking = Thread(target=lambda: answers.append(Served(command, api, 0).complete(max_tokens=100_000)))
    asking.start()
    until(api, "cluster", lambda view: view["tokens"]["generated"])
    if service == "cluster":
        ended = interrupted(command)
    else:
        with nothing_left(command):
            ended = command.send(signal.SIGTERM)
        assert ended.code == 143, ended.err
    asking.join(60)
    assert "stopping" in ended.err
    assert not re.search("Traceback|ERROR", ended.err), ended.err
    assert (answers[0].status_code, answers[0].json()["error"]["type"]) == (503, "server_error")
    assert "the server is stopping" in answers[0].json()["error"]["message"]
