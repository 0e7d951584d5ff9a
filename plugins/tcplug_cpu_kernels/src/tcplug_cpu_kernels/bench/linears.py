"""One linear: microseconds by rows, beside torch's fp32 product."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from truecluster.api import Role, Slot
from truecluster.nn import Linear

from ..leaves import bind_linear
from ..workspace import Workspace
from .weights import matrix

ROWS = (1, 4, 16, 128)
FORMATS = ("fp32", "fp16", "bf16", "int8", "int4.g32.asym", "int4.g32.sym", "int4.g128.asym")
UNCACHED = 128 << 20
"""Bytes of copies that calls go round, so that none finds its weights in a cache."""


def best(calls: list[Callable[[], Any]], runs: int) -> float:
    """Seconds of the quickest call; they are taken in turns."""
    times = []
    for call in itertools.islice(itertools.cycle(calls), runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(out: int, width: int, runs: int) -> dict[str, dict[str, float]]:
    """Format → rows → microseconds; ``torch`` is ``F.linear`` in fp32."""
    found = {"torch": _by_rows(_torch(out, width), width, runs)}
    return found | {id: _by_rows(_ours(id, out, width), width, runs) for id in FORMATS}


def _by_rows(calls: list[Callable[[torch.Tensor], Any]], width: int, runs: int) -> dict[str, float]:
    found = {}
    for rows in ROWS:
        x = torch.randn(rows, width)
        found[str(rows)] = 1e6 * best([lambda call=call, x=x: call(x) for call in calls], runs)  # type: ignore[misc]
    return found


def _torch(out: int, width: int) -> list[Callable[[torch.Tensor], Any]]:
    copies = max(2, UNCACHED // (4 * out * width))
    weights = [torch.randn(out, width) for _ in range(copies)]
    return [lambda x, w=w: functional.linear(x, w) for w in weights]  # type: ignore[misc]


def _ours(id: str, out: int, width: int) -> list[Callable[[torch.Tensor], Any]]:
    slot, workspace = Slot("w", Role.LINEAR, (out, width)), Workspace()
    first = matrix(id, out, width)
    more = max(2, UNCACHED // first.data.numel()) - 1
    all_handles = [first, *(matrix(id, out, width) for _ in range(more))]
    return [bind_linear(Linear(slot), {"w": handle}, workspace) for handle in all_handles]
