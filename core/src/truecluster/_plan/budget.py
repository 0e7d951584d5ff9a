"""What a plan takes of each node's memory, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from truecluster.api import ModelProfile, NodeProfile, Placement, Span

PROCESS = 280_000_000
"""Bytes that a node's process takes of its machine beside its stage: Python and torch 230 MB, buffers the rest."""


@attrs.frozen(kw_only=True)
class Share:
    """One node's share, in bytes. ``needed`` is the sum of the five before it.

    ``weights`` are those of blocks, ``ends`` those of embed and head; ``process`` is 0 where the device has memory of
    its own. ``free`` is what the node may use, and ``margin`` what stays of it; ``speed`` is the bytes of weights that
    it reads in a second; all three ``None`` where they aren't known.
    """

    node: str
    device: str
    span: str
    weights: int
    ends: int
    state: int
    workspace: int
    process: int
    needed: int
    free: int | None
    margin: int | None
    speed: float | None


def shares(placements: Sequence[Placement], model: ModelProfile, nodes: Sequence[NodeProfile]) -> list[Share]:
    """One for each node that hosts something, in the order in which a token first meets them."""
    spans: dict[str, list[Span]] = {}
    for placement in placements:
        spans.setdefault(placement.node, []).append(placement.span)
    known = {node.id: node for node in nodes}
    return [_share(id, tuple(hosted), model, known) for id, hosted in spans.items()]


def _share(id: str, spans: Sequence[Span], model: ModelProfile, nodes: Mapping[str, NodeProfile]) -> Share:
    node = nodes.get(id)
    blocks = [block for span in spans for block in model.blocks[span.start : span.stop]]
    weights, state = sum(block.resident for block in blocks), sum(block.state for block in blocks)
    ends = model.ends(embed=any(span.embed for span in spans), head=any(span.head for span in spans))
    workspace = sum(map(model.work, spans))
    process = process_bytes(node.device if node else "cpu")
    needed = weights + ends + state + workspace + process
    free = None if node is None or node.memory is None else node.memory + process
    return Share(
        node=id,
        device=node.device if node else "",
        span=", ".join(map(str, spans)),
        weights=weights,
        ends=ends,
        state=state,
        workspace=workspace,
        process=process,
        needed=needed,
        free=free,
        margin=None if free is None else free - needed,
        speed=node.speed if node else None,
    )


def process_bytes(device: str) -> int:
    """What a process takes of the memory that a device computes in; a device is a kind or an id."""
    return PROCESS if kind_of(device) == "cpu" else 0


def kind_of(device: str) -> str:
    """``cuda:1`` → ``cuda``."""
    return device.partition(":")[0]
