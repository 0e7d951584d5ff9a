"""``GET /metrics``: read by Prometheus' own parser, counted by hand, named as Prometheus wants names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from sockets import wait_until

from truecluster._engine.requests import FinishedEvent, TokenEvent
from truecluster._serve import Readiness
from truecluster.api import Busy

COMPLETION = {"model": "tiny", "prompt": "abc"}
STAGE = {"span": "head", "weights": 5, "sent_weights": 0, "steps": 7, "busy_seconds": 1.5, "busy_now": None}
EDGE = {"kind": "activation", "dtype": "fp32", "transport": "tcp", "route": "direct"}
VIEW: dict[str, Any] = {
    "nodes": [{"id": "a", "state": "working"}, {"id": "b", "state": "spare"}, {"id": "c", "state": "spare"}],
    "stages": [
        {**STAGE, "stage": 0, "node": "coordinator", "busy_share": None},
        {**STAGE, "stage": 1, "node": "a", "busy_seconds": 2.5, "busy_share": 0.25},
    ],
    "edges": [{**EDGE, "from": "coordinator", "to": "a", "bytes": 1234}],
    "weights": {"stored": 10, "sent": 20},
    "requests": {"waiting": 3, "running": 2, "ended": {"stop": 4, "error": 0}},
    "pages": {"held": 5, "total": 9, "tokens_each": 32},
    "steps": {"sent": 8, "in_flight": 1, "stalled_seconds": 0.5},
}
UNITS = ("seconds", "bytes", "ratio")
UNLIKED = ("milliseconds", "_ms", "minutes", "kilobytes", "megabytes", "_mb", "_kb", "percent")


@pytest.fixture
def counted(start: Any) -> Iterator[Any]:
    """A server of this test's own: what is counted can't be taken back."""
    with start() as server:
        server.state.view = VIEW
        yield server


def scraped(server: Any) -> dict[str, Metric]:
    answer = httpx.get(f"{server.url}/metrics", timeout=20)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def values(family: Metric) -> dict[tuple[str, ...], float]:
    """By the labels, which are in the order of their names."""
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_what_the_cluster_counts_comes_through(counted: Any) -> None:
    found = scraped(counted)
    assert values(found["truecluster_stage_busy_seconds"]) == {("coordinator", "0"): 1.5, ("a", "1"): 2.5}
    assert values(found["truecluster_stage_busy_ratio"]) == {("a", "1"): 0.25}
    assert values(found["truecluster_edge_bytes"]) == {("a", "0", "coordinator"): 1234}
    assert values(found["truecluster_nodes"]) == {("working",): 1, ("spare",): 2}
    assert values(found["truecluster_weights_loaded_bytes"]) == {("store",): 10, ("network",): 20}
    assert values(found["truecluster_generations"]) == {("stop",): 4, ("error",): 0}
    alone = ("requests_waiting", "requests_running", "state_pages_used", "state_pages", "steps_in_flight", "ready")
    assert [values(found[f"truecluster_{name}"])[()] for name in alone] == [3, 2, 5, 9, 1, 1]
    if sys.platform == "linux":
        assert found["process_resident_memory_bytes"].samples[0].value > 1e6
    counted.state.readiness = Readiness(alive=True, ready=False, required=1, connected=1)
    assert values(scraped(counted)["truecluster_ready"]) == {(): 0}


def test_the_engines_tally_comes_through(counted: Any) -> None:
    tally = counted.state.counted
    tally.steps, tally.prompt_tokens, tally.cached_tokens, tally.generated_tokens = 8, 11, 4, 6
    for seconds in (0.01, 0.3, 1000.0):
        tally.first_token.note(seconds)
    found = scraped(counted)
    names = ("steps", "prompt_tokens", "cached_tokens", "generated_tokens")
    assert [values(found[f"truecluster_{name}"])[()] for name in names] == [8, 11, 4, 6]
    family = found["truecluster_time_to_first_token_seconds"]
    below = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert [below[bound] for bound in ("0.01", "0.25", "0.5", "120.0", "+Inf")] == [1, 1, 2, 2, 3]
    rest = {sample.name[-4:]: sample.value for sample in family.samples if "le" not in sample.labels}
    assert rest == {"ount": 3, "_sum": pytest.approx(1000.31)}


def test_requests_are_counted_by_where_they_went_and_how_they_ended(counted: Any) -> None:
    engine = counted.state.engine
    with httpx.Client(base_url=counted.url, timeout=20) as client:
        for more in ({}, {"stream": True}, {"model": "none"}):
            client.post("/v1/completions", json={**COMPLETION, **more})
        engine.events = [TokenEvent(97), FinishedEvent(reason="error", generated=1, message="gone")]
        assert client.post("/v1/completions", json=COMPLETION).status_code == 500
        assert '"error"' in client.post("/v1/completions", json={**COMPLETION, "stream": True}).text
        engine.refuse = Busy("full", 1)
        client.post("/v1/completions", json=COMPLETION)
        counted.state.readiness = Readiness(alive=True, ready=False, required=1, connected=0)
        client.post("/v1/completions", json=COMPLETION)
        client.get("/v1/models/tiny")
        client.get("/v1/models/none")
        client.delete("/v1/completions")
        client.get("/wp-login.php")
    assert values(scraped(counted)["truecluster_requests"]) == {
        ("/v1/completions", "ok"): 2,
        ("/v1/completions", "refused"): 2,  # no such model, no such method
        ("/v1/completions", "failed"): 2,  # one after its status was sent
        ("/v1/completions", "busy"): 1,
        ("/v1/completions", "not_ready"): 1,
        ("/v1/models/{name:path}", "ok"): 1,
        ("/v1/models/{name:path}", "refused"): 1,
        ("other", "refused"): 1,
    }
    assert values(scraped(counted)["truecluster_requests"])["/metrics", "ok"] == 1


def test_clients_that_go_are_counted_apart(counted: Any) -> None:
    counted.state.engine.events = [TokenEvent(97)]
    with httpx.Client(base_url=counted.url, timeout=20) as client:
        with client.stream("POST", "/v1/completions", json={**COMPLETION, "stream": True}) as answer:
            next(answer.iter_lines())
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/completions", json=COMPLETION, timeout=0.5)
    wait_until(lambda: values(scraped(counted)["truecluster_requests"]).get(("/v1/completions", "gone")) == 2)
    assert all(handle.cancelled.is_set() for handle in counted.state.engine.handles)


def test_names_are_as_prometheus_wants_them(counted: Any) -> None:
    """https://prometheus.io/docs/practices/naming/ and what ``promtool check metrics`` says."""
    counted.state.counted.first_token.note(1.0)
    text = httpx.get(f"{counted.url}/metrics", timeout=20).text
    families = list(text_string_to_metric_families(text))
    ours = [family for family in families if family.name.startswith("truecluster_")]
    assert len(ours) == len({family.name for family in ours}) >= 20
    assert {family.name for family in families if family not in ours} <= {
        f"process_{name}"
        for name in (
            "virtual_memory_bytes",
            "resident_memory_bytes",
            "start_time_seconds",
            "cpu_seconds",
            "open_fds",
            "max_fds",
        )
    }
    for family in ours:
        assert family.documentation.endswith("."), family.name
        assert family.type != "unknown", family.name
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", family.name)
        assert not any(word in family.name for word in UNLIKED)
        assert not any(f"_{unit}_" in family.name for unit in UNITS), family.name
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", family.type)), family.name
        ends = {"counter": {"_total"}, "histogram": {"_bucket", "_sum", "_count"}}.get(family.type, {""})
        assert {sample.name.removeprefix(family.name) for sample in family.samples} <= ends | {"_info"}
        assert not {"le", "quantile"} & set().union(*(s.labels for s in family.samples if family.type != "histogram"))


def test_a_scrape_is_no_business_of_the_engine(counted: Any) -> None:
    scraped(counted)
    assert not counted.state.engine.asked
