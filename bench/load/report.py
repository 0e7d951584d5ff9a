"""Loads as a table for people and as JSON with every sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import attrs
from rich.table import Table

from .samples import Sample, Spread, Summary

HEADINGS = ("load", "server", "ok", "429", "failed", "req/s", "tokens/s")
SPREADS = ("TTFT ms", "TPOT ms", "gap ms")
COMPARED: Mapping[str, Callable[[Summary], float | None]] = {
    "tokens/s": lambda summary: summary.tokens_per_s or None,
    "TTFT p50": lambda summary: None if summary.ttft_s is None else summary.ttft_s.p50,
    "TPOT p50": lambda summary: None if summary.tpot_s is None else summary.tpot_s.p50,
}


@attrs.frozen(kw_only=True)
class Measured:
    """One load on one server in one round."""

    load: str
    server: str
    round: int
    samples: Sequence[Sample]

    @property
    def summary(self) -> Summary:
        return Summary.of(self.samples)

    def as_json(self) -> dict[str, Any]:
        return attrs.asdict(self) | {"summary": attrs.asdict(self.summary)}


def table(measured: Sequence[Measured]) -> Table:
    """A row for each; times as p50 / p90 / p99."""
    made = Table(*HEADINGS, *(f"{name} p50/90/99" for name in SPREADS))
    for one in measured:
        found = one.summary
        counts = (found.requests - found.busy - found.errors, found.busy, found.errors)
        rates = (f"{found.requests_per_s:.2f}", f"{found.tokens_per_s:.1f}")
        spreads = map(_spread, (found.ttft_s, found.tpot_s, found.gap_s))
        made.add_row(one.load, one.server, *map(str, counts), *rates, *spreads)
    return made


def _spread(spread: Spread | None) -> str:
    return "-" if spread is None else " / ".join(f"{1e3 * seconds:.4g}" for seconds in attrs.astuple(spread))


def ratios(measured: Sequence[Measured], ours: str, other: str) -> dict[str, dict[str, float]]:
    """Load → figure → ours as a multiple of the other's: the median of the rounds that have both."""
    sides = {(one.load, one.round, one.server): one.summary for one in measured}
    found: dict[str, dict[str, list[float]]] = {}
    for (load, round, server), summary in sides.items():
        if server != ours or (load, round, other) not in sides:
            continue
        for name, figure in COMPARED.items():
            mine, theirs = figure(summary), figure(sides[load, round, other])
            if mine and theirs:
                found.setdefault(load, {}).setdefault(name, []).append(mine / theirs)
    return {load: {name: median(each) for name, each in figures.items()} for load, figures in found.items()}


def failures(measured: Sequence[Measured]) -> Counter[str]:
    """What servers said of requests that failed, with how often."""
    return Counter(
        f"{one.server} answered {sample.status or 'nothing'}: {sample.error}"
        for one in measured
        for sample in one.samples
        if not sample.answered
    )
