"""Why a model doesn't fit, in bytes: what every node would need, what it has, and how much is missing."""

from __future__ import annotations

from collections.abc import Sequence

from truecluster.api import ModelProfile, NodeProfile

from .partition import Sizes, partition

REMEDY = "Add nodes, or take a smaller --quant, less --context, or less --memory-reserve"
SHOWN = 8
"""Nodes that a message names."""


def refusal(model: ModelProfile, nodes: Sequence[NodeProfile], sizes: Sizes, allowed: int) -> str:
    """``sizes`` as `partition` takes them; of ``nodes``, whose memory is known, at most ``allowed`` may be used."""
    layers = len(model.blocks)
    if not nodes:
        return f"{model.name} needs {sizes[0, layers]:,} bytes of memory and there are no nodes; start one with tc node"
    used = _largest(nodes, allowed)
    there = [node.memory or 0 for node in used]
    stages = max(1, sum(room > 0 for room in there))
    missing = sizes[0, layers] + (stages - 1) * (model.workspace + model.attention) - sum(there)
    if missing > 0:
        why = f"{missing:,} bytes are missing"
    else:
        largest = max(sizes[i, i + 1] for i in range(layers))
        why = f"no cut between blocks, the largest of which needs {largest:,} bytes, gives each what it can hold"
    count = "1 node" if len(used) == 1 else f"{len(used)} nodes"
    return f"{model.name} doesn't fit on {count}: {why}. {_each(used, sizes, layers)}. {REMEDY}"


def _largest(nodes: Sequence[NodeProfile], allowed: int) -> list[NodeProfile]:
    """The nodes that have most, in their order."""
    most = sorted(range(len(nodes)), key=lambda i: -(nodes[i].memory or 0))[:allowed]
    return [nodes[i] for i in sorted(most)]


def _each(nodes: Sequence[NodeProfile], sizes: Sizes, layers: int) -> str:
    """What an even split would need of each node, and what the node has."""
    even = partition(layers, sizes, [None] * len(nodes), len(nodes))
    assert even is not None, "without bounds everything fits"
    needs = {share.host: sizes[share.start, share.stop] for share in even}
    lines = [
        f"{node.id} would need {needs.get(i, 0):,} bytes and has {node.memory or 0:,}"
        for i, node in enumerate(nodes[:SHOWN])
    ]
    return "; ".join(lines + ([f"and {len(nodes) - SHOWN} more nodes"] if len(nodes) > SHOWN else []))
