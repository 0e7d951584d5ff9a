"""Observers of real clusters: they hear what happens, and nothing that they do reaches an answer."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import Commands, Ended
from observers import WRITES, write_observer

ARGUMENTS = ("--nodes", 2, "--device", "cpu", "--threads", 1, "--max-tokens", 6, "--temperature", 0, "--raw", "--json")


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    """The file where the observer that behaves writes what it hears."""
    return tmp_path / "heard.jsonl"


@pytest.fixture
def site(tmp_path: Path, heard: Path) -> Path:
    """The observers: one that behaves, one that raises, one that never returns."""
    folder = tmp_path / "site"
    write_observer(folder, "writes", WRITES.format(path=str(heard)))
    write_observer(folder, "raises", "raise RuntimeError('no disk')")
    write_observer(folder, "sleeps", "time.sleep(10 ** 6)")
    return folder


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def tokens(ended: Ended) -> list[int]:
    assert ended.code == 0, ended.err
    ids: list[int] = json.loads(ended.out)["token_ids"]
    return ids


def test_a_run_is_told_from_its_nodes_to_its_answer_and_goes_as_without(
    tc: Commands, tiny: Path, site: Path, heard: Path
) -> None:
    alone = tc.run("run", "Hello", "--model", tiny, *ARGUMENTS, work_dir="alone")
    watched = tc.run("run", "Hello", "--model", tiny, *ARGUMENTS, work_dir="watched", env={"PYTHONPATH": str(site)})
    assert tokens(watched) == tokens(alone)
    said = [line for line in watched.err.splitlines() if "event observer" in line]
    assert len(said) == 2
    assert "the event observer of tcplug-raises 1.0 failed: at NodeJoined: RuntimeError: no disk" in said[0]
    assert "the event observer of tcplug-sleeps 1.0 didn't end: it is left alone with" in said[1]
    told = read(heard)
    _check_nodes(told)
    _check_plan(told)
    assert [event["state"] for event in told if event["kind"] == "RunStateChanged"] == [
        "provisioning",
        "waiting-ready",
        "running",
        "completed",
        "tearing-down",
        "done",
    ]
    (request,) = [event for event in told if event["kind"] == "RequestFinished"]
    usage = json.loads(watched.out)["usage"]
    assert (request["reason"], request["message"]) == (json.loads(watched.out)["finish_reason"], None)
    assert request["generated_tokens"] == usage["completion_tokens"]
    assert request["prompt_tokens"] == usage["prompt_tokens"]
    assert request["seconds"] > 0


def _check_nodes(told: list[dict[str, Any]]) -> None:
    joined = [event for event in told if event["kind"] == "NodeJoined"]
    assert sorted(event["node"] for event in joined) == ["worker-1", "worker-2"]
    assert {event["device"] for event in joined} == {"cpu"}
    assert all(event["memory"] > 0 for event in joined)
    assert Counter(event["kind"] for event in told)["NodeLost"] == 0  # they were told to go


def _check_plan(told: list[dict[str, Any]]) -> None:
    """Four layers over two nodes, ends at the coordinator; both nodes share a store, so one pushes for both."""
    (plan,) = [event for event in told if event["kind"] == "PlanMade"]
    assert (plan["run"], plan["model"]) == (1, "tiny")
    assert [place["node"] for place in plan["placements"]] == ["coordinator", "worker-1", "worker-2", "coordinator"]
    assert [(p["span"]["start"], p["span"]["stop"]) for p in plan["placements"]] == [(0, 0), (0, 2), (2, 4), (4, 4)]


def test_a_cluster_tells_of_weights_and_of_nodes_that_are_refused_or_lost(
    tc: Commands, tiny: Path, site: Path, heard: Path
) -> None:
    cluster, api, port = tc.cluster(tiny, "--max-nodes", 1, env={"PYTHONPATH": str(site)})
    first = tc.node(port, "first")
    cluster.wait_for("^first: blocks")
    assert tc.run("node", "--cluster-port", port, "--node-id", "bad", key="another key", work_dir="bad").code == 2
    body = {"model": "tiny", "prompt": "Hello", "max_tokens": 4, "temperature": 0}
    assert httpx.post(f"http://127.0.0.1:{api}/v1/completions", json=body, timeout=60).status_code == 200
    first.send(signal.SIGKILL)
    cluster.wait_for("the run failed")
    assert cluster.send(signal.SIGINT).code == 130
    told = read(heard)
    progress = [event for event in told if event["kind"] == "WeightsProgress"]
    assert {(event["run"], event["node"]) for event in progress} == {(1, "first")}
    assert progress[-1]["done"] == progress[-1]["total"] > 0
    assert [event["done"] for event in progress] == sorted(event["done"] for event in progress)
    (refused,) = [event for event in told if event["kind"] == "NodeRefused"]
    assert refused["node"] is None
    assert "key" in refused["reason"]
    (lost,) = [event for event in told if event["kind"] == "NodeLost"]
    assert lost["node"] == "first"
    assert lost["reason"].startswith("node first was lost: ")
    states = [event["state"] for event in told if event["kind"] == "RunStateChanged" and event["run"] == 1]
    assert states[2:] == ["running", "faulted", "tearing-down", "done"]


def test_children_use_the_plugins_that_were_chosen(tc: Commands, tiny: Path, site: Path, heard: Path) -> None:
    """What is left out is left out in the workers, too, and each process traces what it does."""
    names = "tcplug-qwen2,tcplug-quant,tcplug-transport-tcp,tcplug-planner-even,tcplug-devices,tcplug-hf"
    said = tc.run(
        *("run", "Hello", "--model", tiny, *ARGUMENTS, "--plugins", names, "--strict-plugins", "--trace-plugins"),
        env={"PYTHONPATH": str(site)},
    )
    assert len(tokens(said)) == 6
    assert not heard.exists()
    lines = [line for line in said.err.splitlines() if line.startswith("plugins[")]
    processes: dict[str, list[str]] = {}
    for line in lines:
        processes.setdefault(line.partition("]")[0], []).append(line.partition(": ")[2])
    assert len(processes) == 3
    for told in processes.values():
        assert sum(line.startswith("registered ") for line in told) == 6
        assert "left out tcplug-cpu-kernels" in " ".join(told)
        assert any(line.startswith("resolved architecture 'qwen2' of tcplug-qwen2 ") for line in told)
