"""What the machine gives right now, so that ratios can be judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from tools.figures import Figure, Settings

MEMORY = 1 << 28
"""fp32 values: 1 GiB, which no cache holds."""
SIDE = 2048


def roofline(settings: Settings) -> Iterator[Figure]:
    """fp32 sum over 1 GiB; product of two 2048 × 2048 fp32 matrices."""
    torch.set_num_threads(settings.threads)
    memory, square = torch.ones(MEMORY), torch.randn(SIDE, SIDE)
    read = _seconds(memory.sum, settings.runs)
    yield Figure(name="memory read", samples=[memory.nbytes / s / 1e9 for s in read], unit="GB/s")
    product = _seconds(lambda: square @ square, settings.runs)
    yield Figure(name="fp32 matmul", samples=[2 * SIDE**3 / s / 1e9 for s in product], unit="GFLOP/s")


def _seconds(call: Callable[[], object], runs: int) -> list[float]:
    call()
    found = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found
