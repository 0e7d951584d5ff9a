"""What is said of a run's weights: per stage, and sums that are those of the stages."""

from __future__ import annotations

from typing import Any

import pytest

from truecluster._cluster import figures
from truecluster._cluster.delivery import Moved
from truecluster._plan import RunPlan, StagePlan
from truecluster.api import COORDINATOR, DType, Dtypes, Span

FP32 = Dtypes(DType.FP32, DType.FP32)
HALF = Dtypes(DType.FP16, DType.FP32)
SPANS = (
    (COORDINATOR, Span(0, 0, embed=True), FP32),
    ("b", Span(0, 3), HALF),
    ("a", Span(3, 5), FP32),
    (COORDINATOR, Span(5, 5, head=True), FP32),
)
WEIGHTS = {0: 500, 1: 3_000_000, 2: 2_000_000, 3: 700}
MOVED = [Moved(node="a", stored=2_000_000, sent=0), Moved(node="b", stored=1_250_000, sent=1_750_000)]
"""In the order in which they became ready, which is not that of the stages."""


@pytest.fixture
def plan() -> RunPlan:
    stages = tuple(
        StagePlan(index=i, count=4, node=node, span=span, dtypes=dtypes, inbound="", outbound="")
        for i, (node, span, dtypes) in enumerate(SPANS)
    )
    return RunPlan(run=1, model="m", stages=stages, edges=())


def test_the_lines_are_in_the_order_of_the_stages_and_end_with_the_sums(plan):
    assert list(figures.lines(plan, MOVED)) == [
        "b: blocks 0-2 in fp16 with residual fp32, weights 1.2 MB from its store, 1.8 MB sent",
        "a: blocks 3-4 in fp32, weights 2.0 MB from its store, 0.0 MB sent",
        "2 nodes together: 5.0 MB, 3.2 MB from their stores, 1.8 MB sent",
    ]


def test_every_figure_adds_up(plan):
    report: dict[str, Any] = figures.report(plan, WEIGHTS, MOVED, packed=42)
    assert [stage["weight_bytes"] for stage in report["stages"]] == list(WEIGHTS.values())
    for each in (*report["stages"], report):
        assert each["weight_bytes"] == each["stored_bytes"] + each["sent_bytes"]
    assert report["weight_bytes"] == sum(WEIGHTS.values())
    assert report["sent_bytes"] == 1_750_000
    assert report["packed_bytes"] == 42
