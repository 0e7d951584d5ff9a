"""Nodes and coordinators that come, wait, are too small, leave and come back: real processes."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from commands import KEY, Command, Commands, Served, free_port

SOON = 10.0
"""Seconds in which a process must be gone that was told to end."""


def start_cluster(tc: Commands, model: Path, port: int, *arguments: object) -> Command:
    return tc.start("cluster", "--model", model, "--api-port", 0, "--node-port", port, *arguments)


def ended_soon(command: Command, number: signal.Signals) -> int:
    began = time.monotonic()
    code = command.send(number).code
    assert time.monotonic() - began < SOON
    assert "Traceback" not in command.err, command.err
    return code


def test_a_node_that_is_there_before_its_coordinator_joins_it(tc: Commands, tiny: Path) -> None:
    port = free_port()
    node = tc.node(port, "early")
    node.wait_for(rf"^WARNING can't reach 127\.0\.0\.1:{port}: .*; trying again for 600 s$")
    cluster = start_cluster(tc, tiny, port)
    cluster.wait_for("^early: blocks 0-3")
    node.wait_for("^INFO joined .* as early on cpu")
    assert node.err.count("trying again") < 3


def test_a_node_joins_again_when_its_coordinator_was_killed_and_is_started_again(tc: Commands, tiny: Path) -> None:
    port = free_port()
    cluster = start_cluster(tc, tiny, port)
    node = tc.node(port, "a")
    cluster.wait_for("^a: blocks 0-3")
    cluster.send(signal.SIGKILL)
    node.wait_for(r"^WARNING lost the coordinator at 127\.0\.0\.1:\d+: .*; trying again for 600 s$")
    again = start_cluster(tc, tiny, port)
    again.wait_for(r"^a: blocks 0-3 .*, weights \S+ MB from its store, 0\.0 MB sent$")
    assert node.err.count("lost the coordinator") < 3
    assert ended_soon(again, signal.SIGINT) == 130
    assert node.end(10).code == 0


def test_a_node_gives_up_when_its_time_is_over(tc: Commands, tiny: Path) -> None:
    """DIST-19."""
    port = free_port()
    node = tc.node(port, "a", "--join-timeout", 2)
    ended = node.end(30)
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith(f"tc: can't reach 127.0.0.1:{port}: ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_node_that_looks_for_its_coordinator_ends_at_once(tc: Commands, number: signal.Signals, code: int) -> None:
    """DIST-19: SIGTERM exits within seconds even while reconnecting."""
    node = tc.node(free_port(), "a")
    node.wait_for("trying again")
    assert ended_soon(node, number) == code


def test_a_wrong_key_is_not_tried_again(tc: Commands, tiny: Path) -> None:
    port = free_port()
    cluster = start_cluster(tc, tiny, port)
    cluster.wait_for("waiting for nodes")
    ended = tc.node(port, "a", env={"TRUECLUSTER_KEY": "another"}).end(30)
    assert ended.code == 2
    assert "give the coordinator's key with --key-file or TRUECLUSTER_KEY" in ended.err
    assert "trying again" not in ended.err
    assert cluster.err.count("refused a connection") == 1


def test_the_line_that_is_printed_can_be_pasted(tc: Commands, tiny: Path) -> None:
    """With the random key and all; two nodes by the same words are told apart (truecluster.md, 15.2)."""
    cluster = tc.start("cluster", "--model", tiny, "--api-port", 0, "--node-port", 0, "--max-nodes", 2, key=None)
    line = cluster.wait_for(r"^  (TRUECLUSTER_KEY=\S+ tc node --cluster-host \S+ --cluster-port \d+)$")[1]
    setting, tc_, *words = shlex.split(line)
    assert tc_ == "tc"
    name, _, key = setting.partition("=")
    for store in ("one", "two"):
        tc.start(*words, "--device", "cpu", env={name: key}, key=None, work_dir=store)
    host = re.escape(re.sub(r"[^\x21-\x7e]+", "-", socket.gethostname()))
    cluster.wait_for(rf"^{host}: blocks 0-1")
    cluster.wait_for(rf"^{host}-2: blocks 2-3")


def test_a_spare_is_told_so_hears_heartbeats_and_takes_part_in_the_next_run(tc: Commands, tiny: Path) -> None:
    cluster, _, port = tc.cluster(tiny, "--min-nodes", 2, "--max-nodes", 2)
    first = tc.node(port, "a")
    cluster.wait_for("waiting for nodes: 1 of 2 are here")
    tc.node(port, "b")
    cluster.wait_for("^b: blocks 2-3")
    spare = tc.node(port, "c")
    cluster.wait_for("^not needed now: c waits as a spare for the next run$")
    spare.wait_for("the run at work does without this node: waiting as a spare")
    first.send(signal.SIGKILL)
    cluster.wait_for("the run failed: node a was lost")
    cluster.wait_for("^b: blocks 0-1")
    cluster.wait_for("^c: blocks 2-3")


def test_planning_starts_at_the_minimum_and_goes_no_further_than_the_maximum(tc: Commands, tiny: Path) -> None:
    cluster, _, port = tc.cluster(tiny, "--min-nodes", 1, "--max-nodes", 2)
    tc.node(port, "a")
    cluster.wait_for("^a: blocks 0-3")
    tc.node(port, "b")
    cluster.wait_for("^not needed now: b waits as a spare for the next run$")


def test_a_node_that_is_too_small_is_told_what_is_missing(tc: Commands, tiny: Path) -> None:
    cluster, api, port = tc.cluster(tiny)
    tc.node(port, "small", "--max-memory-gb", 0.001)
    said = cluster.wait_for("^waiting for another node, 1 are here: (.*)$")[1]
    assert re.search(r"small\b.*[\d,]{5,}", said), said
    error = httpx.post(
        f"http://127.0.0.1:{api}/v1/completions", json={"model": "tiny", "prompt": "x"}, timeout=60
    ).json()["error"]
    assert error["type"] == "cluster_not_ready"
    assert "Required nodes: 2, connected ready nodes: 1" in error["message"]
    tc.node(port, "big")
    cluster.wait_for("^big: blocks 0-3")
    assert Served(cluster, api, port).complete().status_code == 200


def test_a_node_that_leaves_before_anything_is_loaded_is_not_waited_for(tc: Commands, tiny: Path) -> None:
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 2)
    leaver = tc.node(port, "a")
    cluster.wait_for("waiting for nodes: 1 of 2 are here")
    leaver.send(signal.SIGINT)
    cluster.wait_for("waiting for nodes: 0 of 2 are here", count=2)
    for name in "bc":
        tc.node(port, name)
    cluster.wait_for("^b: blocks 0-1")
    cluster.wait_for("^c: blocks 2-3")


def test_a_node_that_joins_during_answers_changes_nothing_for_them(tc: Commands, tiny: Path) -> None:
    """DIST-18: the plan of running requests stays."""
    cluster, api, port = tc.cluster(tiny, "--min-nodes", 2, "--max-nodes", 3)
    for name in "ab":
        tc.node(port, name)
    cluster.wait_for("^b: blocks")
    served = Served(cluster, api, port)
    joined = threading.Event()

    def answers(prompt: str) -> set[str]:
        """All that is answered to a prompt until the node has joined, one after the other without a pause."""
        texts = set()
        while not joined.is_set():
            texts.add(served.complete(prompt, max_tokens=500).json()["choices"][0]["text"])
        return texts

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(answers, prompt) for prompt in ("Hello", "Tell me")]
        tc.node(port, "late")
        cluster.wait_for("^not needed now: late waits as a spare for the next run$")
        joined.set()
        assert [len(texts.result()) for texts in asked] == [1, 1]
    assert cluster.err.count(": blocks ") == 2
    assert "failed" not in cluster.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["cluster", "--min-nodes", 3, "--max-nodes", 2], ["--min-nodes 3", "--max-nodes 2"]),
        (["run", "--min-nodes", 3, "--nodes", 2, "Hello"], ["--min-nodes 3", "--nodes"]),
    ],
    ids=["cluster", "run"],
)
def test_a_minimum_above_the_maximum(tc: Commands, tiny: Path, command: list[object], words: list[str]) -> None:
    ended = tc.run(*command, "--model", tiny)
    assert ended.code == 2
    assert all(word in ended.err for word in words), ended.err


@pytest.mark.parametrize("name", ["two words", "", "ü", "x" * 256])
def test_a_name_that_no_node_can_have(tc: Commands, name: str) -> None:
    ended = tc.run("node", "--node-id", name)
    assert ended.code == 2
    assert "--node-id" in ended.err
    assert "internal error" not in ended.err


def test_run_starts_as_soon_as_the_minimum_is_there(tc: Commands, tiny: Path) -> None:
    ended = tc.run("run", "--model", tiny, "--min-nodes", 1, "--nodes", 2, "--max-tokens", 2, "--json", "Hello")
    assert ended.code == 0, ended.err
    assert len(json.loads(ended.out)["plan"]["stages"]) in (3, 4)


def test_help_has_units(tc: Commands) -> None:
    seconds = ("--ready-timeout", "--step-timeout", "--stop-timeout")
    for command, options in (("cluster", seconds), ("run", seconds), ("node", ("--join-timeout",))):
        text = tc.run(command, "--help").out
        assert all(re.search(rf"{option} SECONDS", text) for option in options), text
    assert re.search(r"--max-memory-gb F .*GB", text)


def test_the_key_comes_from_a_file_or_an_option(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    port = free_port()
    cluster = tc.start(
        "cluster", "--model", tiny, "--api-port", 0, "--node-port", port, "--max-nodes", 2, "--key-file", file, key=None
    )
    tc.start("node", "--cluster-host", "127.0.0.1", "--cluster-port", port, "--node-id", "a", "--key", KEY, key=None)
    tc.start("node", "--cluster-port", port, "--node-id", "b", "--key-file", file, "--threads", 1, key=None)
    cluster.wait_for("^b: blocks 2-3")
