"""The split, against divisions made by hand."""

from __future__ import annotations

import pytest
from tcplug_planner_speed.planner import SpeedPlanner

from truecluster.api import Block, Embed, Head, Limits, ModelProfile, NodeProfile, PartProfile

MB = 10**6


def model(blocks: int, *, head: int = 0) -> ModelProfile:
    """Blocks of 10 MB, a tenth of it state."""
    parts = [PartProfile(part=Block(i), wire=9 * MB, resident=9 * MB, state=MB) for i in range(blocks)]
    first, last = PartProfile(part=Embed(), wire=0, resident=0), PartProfile(part=Head(), wire=head, resident=head)
    return ModelProfile(name="toy", parts=(first, *parts, last))


def counts(blocks, speeds, *, memory=None, head=0, max_nodes=None):
    """Blocks of each node, by its place; the ends lie on nodes where ``head`` has bytes."""
    memory = memory or [None] * len(speeds)
    nodes = [
        NodeProfile(id=str(i), device="cpu", memory=bytes, speed=speed)
        for i, (bytes, speed) in enumerate(zip(memory, speeds, strict=True))
    ]
    limits = Limits(head="last-stage" if head else "coordinator", max_nodes=max_nodes)
    plan = SpeedPlanner().plan(model(blocks, head=head), nodes, limits)
    return {p.node: p.span.stop - p.span.start for p in plan if p.node.isdigit()}


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ([1e9, 2e9], {"0": 10, "1": 20}),
        ([3e9, 1e9, 2e9], {"0": 15, "1": 5, "2": 10}),
        ([5e9, 5e9, 5e9], {"0": 10, "1": 10, "2": 10}),
        ([None, None], {"0": 15, "1": 15}),
        ([1e9, 3e9, None], {"0": 5, "1": 15, "2": 10}),
        ([1.0, 2.0], {"0": 10, "1": 20}),
    ],
)
def test_blocks_are_proportional_to_speed_and_an_unknown_one_is_the_mean(speeds, expected):
    assert counts(30, speeds) == expected


def test_a_node_that_would_take_longest_even_for_one_block_is_left_out():
    assert counts(4, [1e9, 1e6]) == {"0": 4}


def test_what_a_fast_node_cannot_hold_goes_to_the_others():
    assert counts(30, [1e9, 9e9], memory=[None, 100 * MB]) == {"0": 20, "1": 10}


def test_the_head_counts_as_what_its_node_reads():
    assert counts(30, [1e9, 1e9], head=36 * MB) == {"0": 17, "1": 13}


def test_of_more_nodes_than_allowed_the_fastest_are_taken():
    assert counts(30, [1e9, 2e9, 4e9], max_nodes=2) == {"1": 10, "2": 20}
