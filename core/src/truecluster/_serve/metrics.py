"""``GET /metrics``: what the engine and the cluster count, in Prometheus' words, read when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import Any, TypeVar

import attrs
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from truecluster._engine.tally import Spread, Tally

from .state import ServeState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "truecluster_"
_VERSION = version("truecluster")

Where = TypeVar("Where", bound=tuple[str, ...])
"""A value for each label."""


@attrs.frozen(eq=False)
class Metrics(Collector):
    """Of one server. ``requests`` counts by path and outcome."""

    state: ServeState
    requests: Counter[tuple[str, str]]

    def text(self) -> bytes:
        """In Prometheus' text format, with what the operating system says of this process."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        view, ready = self.state.cluster(), self.state.ready()
        yield InfoMetricFamily(f"{_PREFIX}build", "The version that runs.", {"version": _VERSION})
        yield _gauge("ready", "Whether requests are answered.", ready.ready)
        yield _counter("requests", "Requests to the API, by path and outcome.", ("endpoint", "outcome"), self.requests)
        yield from _engine(view, self.state.tally())
        yield from _stages(view["stages"])
        yield from _edges(view["edges"])
        yield from _cluster(view)


def _engine(view: Mapping[str, Any], tally: Tally) -> Iterator[Metric]:
    requests, pages = view["requests"], view["pages"]
    ended = {(reason,): count for reason, count in requests["ended"].items()}
    yield _counter("generations", "Generations that ended, each choice of a request being one.", ("reason",), ended)
    yield _single("prompt_tokens", "Tokens of prompts that were answered.", tally.prompt_tokens)
    yield _single("cached_tokens", "Those of them whose state was there already.", tally.cached_tokens)
    yield _single("generated_tokens", "Tokens that were generated.", tally.generated_tokens)
    yield _single("steps", "Steps that were sent through the stages.", tally.steps)
    yield _histogram("time_to_first_token_seconds", "From asking to a first token, with waiting.", tally.first_token)
    yield _histogram("time_per_output_token_seconds", "From token to token, a generation's mean.", tally.each_token)
    yield _gauge("requests_waiting", "Generations that wait to be served.", requests["waiting"])
    yield _gauge("requests_running", "Generations that are served.", requests["running"])
    yield _gauge("state_pages_used", "Pages of sequence state that are held.", pages["held"])
    yield _gauge("state_pages", "Pages of sequence state that there are.", pages["total"])
    yield _gauge("steps_in_flight", "Steps that aren't answered yet.", view["steps"]["in_flight"])


def _stages(stages: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    labels = ("stage", "node")
    by_stage = {(str(stage["stage"]), stage["node"]): stage for stage in stages}
    seconds = {at: stage["busy_seconds"] for at, stage in by_stage.items()}
    steps = {at: stage["steps"] for at, stage in by_stage.items()}
    shares = {at: stage["busy_share"] for at, stage in by_stage.items() if stage["busy_share"] is not None}
    yield _counter("stage_busy_seconds", "Time that steps took in a stage of the run at work.", labels, seconds)
    yield _counter("stage_steps", "Steps that a stage of the run at work has finished.", labels, steps)
    yield _gauges("stage_busy_ratio", "Share of the last ten seconds in which a stage was busy.", labels, shares)


def _edges(edges: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    sent = {(str(i), edge["from"], edge["to"]): edge["bytes"] for i, edge in enumerate(edges)}
    labels = ("edge", "producer", "consumer")
    yield _counter("edge_bytes", "Headers and tensors that went over an edge of the run at work.", labels, sent)


def _cluster(view: Mapping[str, Any]) -> Iterator[Metric]:
    states = Counter((node["state"],) for node in view["nodes"])
    weights = {("store",): view["weights"]["stored"], ("network",): view["weights"]["sent"]}
    yield _gauges("nodes", "Nodes that are connected, by what they do.", ("state",), states)
    yield _counter("weights_loaded_bytes", "Weights that nodes loaded, by where they came from.", ("source",), weights)


def _single(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, text, value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, text, value)


def _counter(name: str, text: str, labels: Sequence[str], values: Mapping[Where, float]) -> Metric:
    return _filled(CounterMetricFamily(_PREFIX + name, text, labels=labels), values)


def _gauges(name: str, text: str, labels: Sequence[str], values: Mapping[Where, float]) -> Metric:
    return _filled(GaugeMetricFamily(_PREFIX + name, text, labels=labels), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[Where, float]) -> Metric:
    for where, value in sorted(values.items()):
        family.add_metric(where, value)
    return family


def _histogram(name: str, text: str, spread: Spread) -> Metric:
    bounds = [*map(str, spread.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(spread.counts), strict=True))
    return HistogramMetricFamily(_PREFIX + name, text, buckets, spread.sum)
