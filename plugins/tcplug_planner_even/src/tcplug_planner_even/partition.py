"""Cutting a row of blocks into contiguous shares, one per host, in the order of the hosts.

Exact, by dynamic programming over (hosts seen, blocks covered), in two passes: first the smallest possible largest
share; then, with no share above it, the cut that uses the most hosts and, of those, has the least sum of squares.
Of equal cuts the one with earlier hosts wins. Time grows with hosts · blocks².
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

Sizes = Mapping[tuple[int, int], int]
"""(start, stop) → bytes that a host needs for blocks start..stop-1."""


@attrs.frozen
class Share:
    """Blocks ``start..stop-1`` on host ``host``."""

    host: int
    start: int
    stop: int


@attrs.frozen
class _Cut:
    cost: Any
    share: Share | None = None
    before: _Cut | None = None

    def shares(self) -> tuple[Share, ...]:
        return (*self.before.shares(), self.share) if self.before and self.share else ()


def partition(blocks: int, sizes: Sizes, memory: Sequence[int | None], limit: int) -> tuple[Share, ...] | None:
    """The best cut over at most ``limit`` hosts; ``memory`` bounds each one's share. ``None`` if nothing fits."""
    smallest = _search(blocks, sizes, memory, limit, 0, max)
    if smallest is None:
        return None
    capped = [smallest.cost if bytes is None else min(bytes, smallest.cost) for bytes in memory]
    best = _search(blocks, sizes, capped, limit, (0, 0), lambda cost, size: (cost[0] - 1, cost[1] + size**2))
    assert best is not None, "the cut of the first pass satisfies the second"
    return best.shares()


def _search(
    blocks: int,
    sizes: Sizes,
    memory: Sequence[int | None],
    limit: int,
    nothing: Any,
    add: Callable[[Any, int], Any],
) -> _Cut | None:
    """The cheapest cut that covers all blocks; ``add(cost, size)`` is the cost with one more share."""
    counts = limit < len(memory)  # how many hosts a cut has used matters only where they can't all be used
    best: dict[tuple[int, int], _Cut] = {(0, 0): _Cut(nothing)}
    for host, room in enumerate(memory):
        grown = dict(best)
        for (used, start), cut in best.items():
            if counts and used == limit:
                continue
            for stop in range(start + 1, blocks + 1):
                size = sizes[start, stop]
                if room is not None and size > room:
                    continue
                key, cost = (used + counts, stop), add(cut.cost, size)
                if key not in grown or cost < grown[key].cost:
                    grown[key] = _Cut(cost, Share(host, start, stop), cut)
        best = grown
    complete = [cut for (_, stop), cut in best.items() if stop == blocks]
    return min(complete, key=lambda cut: cut.cost, default=None)
