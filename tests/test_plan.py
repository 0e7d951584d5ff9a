"""``tc plan``, typed: what it prints against what the tiny model's config says by hand.

A token has 2 · 2 · 16 elements of state in each of 4 blocks, in fp32 1,024 bytes in all; a step holds 16 · 256 · 64
fp32 numbers. A block's matrices have 30,208 elements, in fp16 60,416 bytes, and vectors less than 4 % beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import Commands, Ended, Served
from tcplug_cpu_kernels.native import path

from truecluster._plan import PROCESS

TOKEN, WORKSPACE, BLOCK = 1024, 1 << 20, 60_416
PAIRS, KEYS = 256 * 4096, 4096 * 16
ATTENTION = PAIRS * (2 * 4 * 4 + 8) + 4 * KEYS * (2 * 2 * 2 + 2 * 2 * 4)
"""What the reference's attention takes: two scores of 4 heads and a distance a pair; keys and values, twice of each."""
exact = pytest.mark.skipif(
    path() is None, reason="the CPU kernels, whose needs it counts, were built without a compiler"
)
Tc = Callable[..., Ended]


@pytest.fixture
def plan(tc_here: Tc, tiny: Path) -> Callable[..., dict[str, Any]]:
    """``tc plan --json`` of the tiny model."""

    def run(*arguments: object) -> dict[str, Any]:
        ended = tc_here("plan", "--model", tiny, "--json", *arguments)
        assert ended.code == 0, ended.err
        found: dict[str, Any] = json.loads(ended.out)
        return {**found, "err": ended.err}

    return run


def in_kb(usable: int) -> str:
    """A node that may use so many bytes beside its process, without a reserve."""
    return f"cpu:{(PROCESS + usable) // 1000}KB"


@exact
def test_the_split_over_two_nodes_by_hand(plan: Callable[..., dict[str, Any]]) -> None:
    found = plan("--node", "cpu:1GB", "--node", "cpu:500MB", "--memory-reserve", "0.2")
    own, one, two = found["stages"]
    assert [stage["node"] for stage in (own, one, two)] == ["coordinator", "node-1", "node-2"]
    assert [stage["span"] for stage in (own, one, two)] == ["embed, head", "blocks 0-1", "blocks 2-3"]
    assert (found["context"], found["sequences"], found["state_tokens"]) == (4096, 8, 4096 + 7 * 1024)
    for stage, given in ((one, 10**9), (two, 500 * 10**6)):
        assert stage["state"] == (4096 + 7 * 1024) * TOKEN / 2
        assert stage["weights"] == pytest.approx(2 * BLOCK, rel=0.04)
        assert (stage["ends"], stage["workspace"], stage["process"]) == (0, WORKSPACE, PROCESS)
        assert stage["needed"] == sum(stage[part] for part in ("weights", "state", "workspace", "process"))
        assert stage["free"] == pytest.approx(0.8 * (given - PROCESS) + PROCESS, abs=1)
        assert stage["margin"] == stage["free"] - stage["needed"]
    assert own["ends"] == pytest.approx(2 * 132 * 64 * 2, rel=0.02)
    assert (own["weights"], own["state"], own["free"], own["margin"]) == (0, 0, None, None)


def test_ends_lie_on_the_nodes_with_the_head_there(plan: Callable[..., dict[str, Any]]) -> None:
    one, two = plan("--node", "cuda:1GiB", "--node", "cuda:1:1GiB", "--head", "last-stage")["stages"]
    assert (one["span"], two["span"]) == ("embed + blocks 0-1", "blocks 2-3 + head")
    assert one["ends"] == 132 * 64 * 2
    assert [stage["process"] for stage in (one, two)] == [0, 0]
    assert one["workspace"] == two["workspace"] == WORKSPACE + ATTENTION
    assert one["free"] == int(0.9 * 1024**3)


def test_state_takes_half_where_a_device_computes_in_half(plan: Callable[..., dict[str, Any]]) -> None:
    def state(*nodes: str) -> int:
        arguments = [word for node in nodes for word in ("--node", node)]
        return sum(stage["state"] for stage in plan(*arguments, "--dtype", "fp16", "--context", 1024)["stages"])

    assert state("cuda:1GB") == 8 * 1024 * TOKEN // 2
    assert state("cuda:1GB", "cpu:1GB") == 8 * 1024 * TOKEN  # counted in the wider of the two


def test_the_table_has_every_column_and_says_what_it_means(tc_here: Tc, tiny: Path) -> None:
    ended = tc_here("plan", "--model", tiny, "--node", "cpu:1GB", "--quant", "int4", "--context", "64")
    heads, own, one, _, *words = ended.out.splitlines()
    assert heads.split()[:3] == ["NODE", "DEVICE", "SPAN"]
    for name in ("WEIGHTS", "ENDS", "STATE", "WORKSPACE", "PROCESS", "NEEDED", "FREE", "MARGIN"):
        assert f"{name} MB" in heads
    assert own.startswith("coordinator")
    assert one.split()[:4] == ["node-1", "cpu", "blocks", "0-3"]
    assert "context 64 tokens, 8 requests at once, state for 512 tokens" in words[0]
    assert all(len(line) <= 130 for line in ended.out.splitlines())


@exact
def test_a_context_that_nobody_typed_is_reduced_with_a_line(plan: Callable[..., dict[str, Any]]) -> None:
    usable = 4 * 62_500 + WORKSPACE + 3_200 * TOKEN
    found = plan("--node", in_kb(usable), "--memory-reserve", "0")
    assert 3_100 <= found["context"] == found["state_tokens"] <= 3_200
    assert f"context reduced from 4,096 to {found['context']:,} tokens" in found["err"]
    assert 0 <= found["stages"][1]["margin"] < 100 * TOKEN


@exact
def test_a_context_that_was_typed_is_kept_or_refused_with_the_one_that_fits(
    plan: Callable[..., dict[str, Any]], tc_here: Tc, tiny: Path
) -> None:
    node = ["--node", in_kb(4 * 62_500 + WORKSPACE + 2_080 * TOKEN), "--memory-reserve", "0"]
    assert plan(*node, "--context", 2048)["context"] == 2048
    ended = tc_here("plan", "--model", tiny, *node, "--context", 2100)
    assert ended.code == 2
    assert "with 2,100 tokens of context, tiny doesn't fit on 1 node" in ended.err
    assert "--context 20" in ended.err


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (["cpu:1MB"], ["doesn't fit on 1 node", "node-1 would need", "has 0", "are missing", "10% is left alone"]),
        (["cuda:100KB", "cuda:0KB"], ["on 2 nodes", "node-1 would need", "and has 90,000; node-2", "are missing"]),
        (["cuda:1GB", "cuda:x"], ["--node 'cuda:x' is not of the form DEVICE[:MEMORY][@SPEED]"]),
        (["cpu:1GB@20GB"], ["--node 'cpu:1GB@20GB' is not of the form", "cpu:4GB@20GB/s"]),
        (["cpu@0GB/s"], ["--node 'cpu@0GB/s' is not of the form"]),
        (["tpu:1GB"], ["tpu"]),
    ],
)
def test_what_does_not_fit_is_said_in_bytes(tc_here: Tc, tiny: Path, nodes: list[str], words: list[str]) -> None:
    ended = tc_here("plan", "--model", tiny, *(word for node in nodes for word in ("--node", node)))
    assert ended.code == 2
    assert ended.out == ""
    assert all(word in ended.err for word in words), ended.err


def test_nodes_without_memory_are_left_out_and_unknown_memory_splits_evenly(
    plan: Callable[..., dict[str, Any]], tc_here: Tc, tiny: Path
) -> None:
    found = plan("--node", "cpu:0GB", "--node", "cuda", "--node", "mps")
    assert [(s["node"], s["span"], s["free"]) for s in found["stages"][1:]] == [
        ("node-2", "blocks 0-1", None),
        ("node-3", "blocks 2-3", None),
    ]
    hinted = plan("--node", "cuda", "--node", "mps", "--target-node-memory-gb", "0.5")
    assert [stage["free"] for stage in hinted["stages"][1:]] == [500_000_000] * 2
    ended = tc_here("plan", "--model", tiny, "--node", "cuda", "--target-node-memory-gb", "0.001")
    assert ended.code == 2
    assert "has 1,000,000" in ended.err


def test_a_given_speed_is_shown_and_planned_with(plan: Callable[..., dict[str, Any]], tc_here: Tc, tiny: Path) -> None:
    nodes = ["--node", "cpu:1GB@10GB/s", "--node", "cpu@60GB/s", "--node", "cpu"]
    found = plan(*nodes, "--planner", "speed", "--max-nodes", 2, "--model", tiny)
    shown = [(stage["node"], stage["span"], stage["speed"]) for stage in found["stages"]]
    assert shown == [
        ("coordinator", "embed, head", None),
        ("node-2", "blocks 0-2", 60e9),
        ("node-3", "blocks 3-3", None),  # at the mean, 35 GB/s
    ]
    table = tc_here("plan", "--model", tiny, *nodes).out.splitlines()
    assert [line.split()[-1] for line in table[:5]] == ["GB/S", "-", "10.0", "60.0", "-"]


def test_state_within_a_budget(plan: Callable[..., dict[str, Any]]) -> None:
    found = plan("--node", "cpu:1GB", "--kv-memory-gb", "0.003", "--max-sequences", "2")
    assert found["state_tokens"] == 3_000_000 // (32 * TOKEN) * 32 == 2912
    assert (found["context"], found["sequences"]) == (2912, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--context", 5000], ["--context 5000", "4096 tokens that tiny has"]),
        (["--context", 0], ["--context"]),
        (["--max-sequences", 0], ["--max-sequences"]),
        (["--kv-memory-gb", "0.00001"], ["--kv-memory-gb 1e-05 is 10,000 bytes", "1,024 tokens", "1,048,576"]),
        (["--kv-memory-gb", "nan"], ["--kv-memory-gb nan"]),
        (["--kv-memory-gb", "-1"], ["--kv-memory-gb -1"]),
        (["--kv-memory-gb", "inf"], ["--kv-memory-gb inf"]),
        (["--memory-reserve", "1"], ["--memory-reserve"]),
        (["--memory-reserve", "nan"], ["--memory-reserve"]),
        (["--target-node-memory-gb", "0"], ["--target-node-memory-gb 0"]),
    ],
)
def test_options_that_can_not_be_honoured_are_refused(
    tc_here: Tc, tiny: Path, options: list[object], words: list[str]
) -> None:
    ended = tc_here("plan", "--model", tiny, "--node", "cpu:1GB", *options)
    assert ended.code == 2
    assert all(word in ended.err for word in words), ended.err


def test_a_plan_needs_nodes_from_one_source(tc_here: Tc, tiny: Path) -> None:
    for sources in ([], ["--node", "cpu", "--url", "http://127.0.0.1:1"]):
        ended = tc_here("plan", "--model", tiny, *sources)
        assert ended.code == 2
        assert "--node" in ended.err
        assert "--url" in ended.err


def test_what_a_running_cluster_computes_is_not_for_tc_plan_to_choose(tc_here: Tc) -> None:
    ended = tc_here("plan", "--url", "http://127.0.0.1:1", "--quant", "int8")
    assert ended.code == 2
    assert "--url shows what the cluster runs; with --model" in ended.err


def test_the_plan_of_a_running_cluster(served: Served, tc_here: Tc) -> None:
    url = f"http://127.0.0.1:{served.api}"
    view = httpx.get(f"{url}/cluster", timeout=60).json()
    assert [(node["id"], node["device"], node["span"]) for node in view["nodes"]] == [
        ("a", "cpu", "blocks 0-1"),
        ("b", "cpu", "blocks 2-3"),
    ]
    assert all(node["free"] > 0 and node["speed"] > 1e8 for node in view["nodes"])
    ended = tc_here("plan", "--url", f"{url}/v1", "--json")
    assert (ended.code, json.loads(ended.out)) == (0, view["plan"])
    own, one, two = view["plan"]["stages"]
    assert one["state"] == two["state"] == (4096 + 7 * 1024) * TOKEN / 2
    for stage, node in zip((one, two), view["nodes"], strict=True):  # of one machine, whose memory they share
        assert stage["free"] == pytest.approx(0.9 * node["free"] / 2 + PROCESS, rel=0.01)
        assert stage["margin"] > 0
    assert own["margin"] > 0


def test_another_model_over_the_nodes_of_a_running_cluster(served: Served, tc_here: Tc, wide: Path) -> None:
    url = f"http://127.0.0.1:{served.api}"
    ended = tc_here("plan", "--url", url, "--model", wide, "--quant", "int4", "--context", 128, "--json")
    found = json.loads(ended.out)
    assert (found["model"], found["context"]) == ("wide", 128)
    spans = {stage["node"]: stage["span"] for stage in found["stages"]}
    assert spans == {"coordinator": "embed, head", "a": "blocks 0-1", "b": "blocks 2-3"}


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "file:///etc/hosts", "http://127.0.0.1:1", "http://127.0.0.1:1/v1/"])
def test_a_url_that_leads_to_no_cluster_is_named(tc_here: Tc, url: str) -> None:
    ended = tc_here("plan", "--url", url)
    assert ended.code == 2
    assert url.removesuffix("/v1/") in ended.err


def test_a_cluster_without_a_run_says_so(tc: Commands, tiny: Path, tc_here: Tc) -> None:
    _, api, _ = tc.cluster(tiny)
    ended = tc_here("plan", "--url", f"http://127.0.0.1:{api}")
    assert ended.code == 2
    assert "0 nodes and no plan at work yet" in ended.err
    shown = tc_here("status", "--url", f"http://127.0.0.1:{api}")
    assert (shown.code, "no node has joined" in shown.out) == (0, True), shown.err


def test_a_served_context_bounds_every_request(tc: Commands, tiny: Path) -> None:
    """More than it is refused with OpenAI's code; what fits is answered, however many come at once."""
    cluster, api, port = tc.cluster(tiny, "--max-nodes", 1, "--context", 64, "--max-sequences", 2)
    tc.node(port, "a")
    cluster.wait_for("^a: blocks")
    served = Served(cluster, api, port)
    long = served.complete("x" * 64)
    assert (long.status_code, long.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert "64 tokens" in long.json()["error"]["message"]
    fine = served.complete(["x" * 60, "y" * 60, "z" * 60], max_tokens=4)
    assert [choice["finish_reason"] for choice in fine.json()["choices"]] == ["length"] * 3
