"""``GET /cluster``, ``GET /metrics`` and ``tc status`` of a cluster of two nodes at work."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import Ended, Served
from prometheus_client.parser import text_string_to_metric_families

from truecluster._cli.standing import as_text
from truecluster.api import AddressError

DOCS = (Path(__file__).parents[1] / "docs" / "cluster.md").read_text(encoding="utf-8")
FREE = {"plan", "requests.ended"}
"""What is documented elsewhere, or has keys of its own."""
HIDDEN = 64
HEADER, ROW, OPENED, PAGE, RELEASED = 44, 5 * 4, 2 * 4, 2 * 4, 4
"""Bytes of a step's header: its struct, and an entry of each of its tables."""


def look(served: Served) -> dict[str, Any]:
    view: dict[str, Any] = httpx.get(f"http://127.0.0.1:{served.api}/cluster", timeout=20).json()
    return view


def settled(served: Served) -> dict[str, Any]:
    """The view once nothing is under way and every node has said so."""
    until = time.monotonic() + 60
    while True:
        view = look(served)
        done = {stage["steps"] for stage in view["stages"]} == {view["run"]["steps"]}
        if done and view["steps"]["stalled_seconds"] is None:
            return view
        assert time.monotonic() < until, view
        time.sleep(0.2)


def metrics(served: Served) -> dict[str, dict[tuple[str, ...], float]]:
    text = httpx.get(f"http://127.0.0.1:{served.api}/metrics", timeout=20).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in samples:
        found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def grown(before: list[Any], after: list[Any], key: str) -> list[float]:
    return [then[key] - now[key] for now, then in zip(before, after, strict=True)]


def test_one_request_in_every_figure(served: Served) -> None:
    """Its prompt goes in one step, each token but the last in another, and a last step releases it."""
    before, counted = settled(served), metrics(served)
    answer = served.complete([7, 8, 9, 10, 11], max_tokens=4)
    generated = answer.json()["usage"]["completion_tokens"]
    after, recounted = settled(served), metrics(served)
    assert grown(before["stages"], after["stages"], "steps") == [generated + 1] * 4
    assert all(seconds > 0 for seconds in grown(before["stages"], after["stages"], "busy_seconds"))
    headers = (HEADER + ROW + OPENED + PAGE) + (generated - 1) * (HEADER + ROW) + (HEADER + RELEASED)
    tokens = 5 + generated - 1
    assert grown(before["edges"], after["edges"], "bytes") == [
        headers + 4 * tokens,
        headers + 4 * HIDDEN * tokens,
        headers + 4 * HIDDEN * tokens,
        headers + 4 * HIDDEN * generated,  # only rows that logits are wanted of
        headers + 4 * generated,
    ]
    for name, more in {
        "truecluster_prompt_tokens_total": 5,
        "truecluster_generated_tokens_total": generated,
        "truecluster_steps_total": generated + 1,
        "truecluster_time_to_first_token_seconds_count": 1,
        "truecluster_time_per_output_token_seconds_count": 1 if generated > 1 else 0,
    }.items():
        assert recounted[name][()] - counted[name][()] == more, name
    asked = ("/v1/completions", "ok")
    assert recounted["truecluster_requests_total"][asked] - counted["truecluster_requests_total"].get(asked, 0) == 1
    assert list(recounted["truecluster_edge_bytes_total"].values()) == [edge["bytes"] for edge in after["edges"]]
    busy = recounted["truecluster_stage_busy_seconds_total"]
    assert [busy[stage["node"], str(stage["stage"])] for stage in after["stages"]] == [
        stage["busy_seconds"] for stage in after["stages"]
    ]
    assert recounted["truecluster_nodes"] == {("working",): 2}
    assert recounted["truecluster_ready"] == {(): 1}


def test_where_everything_is(served: Served) -> None:
    view = settled(served)
    assert (view["model"], view["state"], view["run"]["depth"]) == ("tiny", "running", 5)
    assert [(node["id"], node["state"]) for node in view["nodes"]] == [("a", "working"), ("b", "working")]
    stages = [(stage["node"], stage["span"]) for stage in view["stages"]]
    assert stages == [("coordinator", "embed"), ("a", "blocks 0-1"), ("b", "blocks 2-3"), ("coordinator", "head")]
    ends = [(edge["from"], edge["to"], edge["kind"], edge["route"], edge["dtype"]) for edge in view["edges"]]
    assert ends == [
        ("coordinator", "coordinator", "token-in", None, "int32"),
        ("coordinator", "a", "activation", "direct", "fp32"),
        ("a", "b", "activation", "direct", "fp32"),
        ("b", "coordinator", "activation", "direct", "fp32"),
        ("coordinator", "coordinator", "token-out", None, "int32"),
    ]
    loaded = sum(stage["weights"] for stage in view["stages"] if stage["node"] != "coordinator")
    assert view["weights"]["sent"] >= loaded > 0  # the stores of both were empty
    assert view["pages"]["held"] == 0 < view["pages"]["total"]
    assert view["uptime_seconds"] > 0


def test_stages_at_work_are_busy_for_a_share_of_the_time(served: Served) -> None:
    rates: list[float | None] = [None]
    until = time.monotonic() + 60
    while not all(rates) and time.monotonic() < until:
        assert served.complete(max_tokens=16).status_code == 200
        view = look(served)
        rates = [view["tokens"]["generated_per_second"], *(stage["busy_share"] for stage in view["stages"])]
    assert all(rate is not None and rate > 0 for rate in rates)
    assert all(stage["busy_share"] <= 1 for stage in view["stages"])


def paths(value: Any, path: str = "") -> Iterator[str]:
    """``a.b`` for a key in a key, ``a[]`` for what a list holds; not what is empty or free."""
    if path in FREE:
        yield path
    elif isinstance(value, dict):
        yield from (found for key, each in value.items() for found in paths(each, f"{path}.{key}" if path else key))
    elif isinstance(value, list):
        yield from (found for each in value for found in paths(each, f"{path}[]"))
    else:
        yield path


def test_every_key_is_documented(served: Served) -> None:
    written = {
        key
        for line in re.search(r"## GET /cluster\n(.*?)\n## ", DOCS, re.DOTALL)[1].splitlines()  # type: ignore[index]
        for key in re.findall(r"`([^`]+)`", line.split("|")[1] if line.startswith("| `") else "")
    }
    there = {found.replace("dtypes[]", "dtypes") for found in paths(look(served))}
    sometimes = {f"faults[].{key}" for key in ("message", "count", "seconds_ago")}
    sometimes |= {f"progress[].{key}" for key in ("task", "done", "total")}
    headings = {"run", *(key for key in written if key.endswith("[]"))}
    assert there <= written
    assert written - there <= sometimes | headings


def test_every_metric_is_documented(served: Served) -> None:
    table = DOCS.partition("## GET /metrics")[2]
    written = set(re.findall(r"`(truecluster_\w+)`", table))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metrics(served)}
    assert written == {name for name in families if name.startswith("truecluster_")}


def test_status_for_people(served: Served, tc_here: Callable[..., Ended]) -> None:
    settled(served)
    ended = tc_here("status", "--url", f"http://127.0.0.1:{served.api}")
    assert ended.code == 0, ended.err
    head, nodes, edges, *_ = ended.out.split("\n\n")
    first, second = head.splitlines()
    assert re.match(r"tiny: running, run \d+, [\d,]+ steps, up \d+ (s|min)$", first)
    assert re.match(r"0 running, 0 waiting, \d+ ended; 0 of \d+ pages", second)
    lines = [line.split() for line in nodes.splitlines()]
    assert [line[:3] for line in lines[1:]] == [
        ["coordinator", "cpu", "-"],
        ["a", "cpu", "working"],
        ["b", "cpu", "working"],
        ["coordinator", "cpu", "-"],
    ]
    assert "blocks 2-3" in nodes
    assert [line.split()[:4] for line in edges.splitlines()][2] == ["coordinator", "a", "activation", "direct"]


def test_status_for_programs(served: Served, tc_here: Callable[..., Ended]) -> None:
    view = settled(served)
    ended = tc_here("status", "--url", f"http://127.0.0.1:{served.api}/v1", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found.keys()) == (0, view.keys())
    assert found["edges"] == view["edges"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "http://127.0.0.1:1/v1"], ["http://127.0.0.1:1/cluster: connection refused; is tc cluster"]),
        (["--url", "127.0.0.1:1"], ["at http://127.0.0.1:1/cluster: connection refused; is"]),
        (["--url", "ftp://127.0.0.1"], ["--url 'ftp://127.0.0.1'", "http://HOST:PORT"]),
        (["--url", "[::1"], ["--url '[::1'", "http://HOST:PORT"]),
        (["--api-key", "two words"], ["API's key"]),
    ],
    ids=["nobody", "nobody-without-scheme", "scheme", "form", "key"],
)
def test_a_cluster_that_can_not_be_asked(tc_here: Callable[..., Ended], arguments: list[str], words: list[str]) -> None:
    ended = tc_here("status", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert all(word in ended.err for word in words), ended.err


VIEW: dict[str, Any] = {
    "model": "m\x1b[2J",
    "state": "waiting-ready",
    "uptime_seconds": 7300,
    "run": {"number": 2, "state": "waiting-ready", "steps": 0, "depth": 3},
    "nodes": [{"id": "a", "device": "cpu", "state": "spare", "free": 5e6}],
    "stages": [],
    "edges": [],
    "plan": None,
    "progress": [{"task": "sending weights to a", "done": 12_000_000, "total": 60_000_000}],
    "faults": [{"message": "node b\nwas lost", "count": 3, "seconds_ago": 12.0}],
    "requests": {"waiting": 1, "running": 0, "ended": {"stop": 3, "length": 2}},
    "pages": {"held": 0, "total": 0, "tokens_each": 32},
    "tokens": {"prompt": 0, "cached": 0, "generated": 7, "generated_per_second": 0.7},
    "steps": {"sent": 0, "in_flight": 0, "stalled_seconds": 61.0},
}


def test_what_is_under_way_and_what_went_wrong() -> None:
    text = as_text(VIEW)
    assert text.startswith(
        "m?[2J: waiting-ready, run 2, 0 steps, up 2.0 h\n0 running, 1 waiting, 5 ended; 0 of 0 pages"
    )
    assert "7 tokens generated, 0.7 a second over the last 10 s; no step" in text
    assert "no step was answered for 61 s" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["a", "cpu", "spare", "-", "-", "-", "-", "5.0", "-", "-"] in lines
    assert "\nsending weights to a: 12.0 of 60.0 MB\n" in text
    assert text.endswith("went wrong, the latest first:\n  12 s ago: node b?was lost (3 times)")


def test_a_view_of_another_version() -> None:
    with pytest.raises(AddressError, match=r"isn't of this version: KeyError\('run'\); update one"):
        as_text({"model": "m", "nodes": []})
