"""Shares by hand, and against every possible cut."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tcplug_planner_even.planner import EvenPlanner

from truecluster.api import (
    Block,
    Embed,
    Head,
    Limits,
    ModelProfile,
    NodeProfile,
    PartProfile,
    PlanError,
    Span,
)


def model(blocks, embed=0, head=0, workspace=0, tied=False):
    parts = [PartProfile(part=Embed(), wire=embed, resident=embed)]
    parts += [PartProfile(part=Block(i), wire=size, resident=size) for i, size in enumerate(blocks)]
    parts.append(PartProfile(part=Head(), wire=head, resident=head))
    return ModelProfile(name="toy", parts=tuple(parts), workspace=workspace, tied=tied)


def shares(profile, memory, head="coordinator", max_nodes=None):
    """(node, start, stop) of every stage with blocks."""
    nodes = [NodeProfile(id=str(i), device="cpu", memory=bytes) for i, bytes in enumerate(memory)]
    plan = EvenPlanner().plan(profile, nodes, Limits(head=head, max_nodes=max_nodes))
    return [(int(p.node), p.span.start, p.span.stop) for p in plan if p.span.stop > p.span.start]


@pytest.mark.parametrize(
    ("layers", "nodes", "sizes"),
    [(24, 2, [12, 12]), (30, 2, [15, 15]), (10, 4, [2, 2, 3, 3]), (3, 5, [1, 1, 1]), (1, 1, [1]), (7, 1, [7])],
)
def test_equal_blocks(layers, nodes, sizes):
    found = shares(model([5] * layers), [None] * nodes)
    assert sorted(stop - start for _, start, stop in found) == sizes
    assert [node for node, _, _ in found] == list(range(len(sizes)))


def test_blocks_of_different_size_are_weighed_in_bytes():
    assert shares(model([9, 1, 1, 1, 1, 5]), [None, None]) == [(0, 0, 1), (1, 1, 6)]


def test_ends_are_weighed_where_they_lie_on_nodes():
    """Head of 4 blocks' bytes: 6 + embed 1 = 7 on the first node, 3 + head 4 = 7 on the last."""
    assert shares(model([1] * 9, embed=1, head=4), [None, None], head="last-stage") == [(0, 0, 6), (1, 6, 9)]
    assert shares(model([1] * 8, embed=1, head=4), [None, None]) == [(0, 0, 4), (1, 4, 8)]


def test_a_tied_matrix_is_counted_once_on_a_single_node():
    assert shares(model([1] * 4, embed=9, head=9, tied=True), [13], head="last-stage") == [(0, 0, 4)]
    with pytest.raises(PlanError, match=r"on 1 node: 9 bytes are missing\. 0 would need 22 bytes and has 13"):
        shares(model([1] * 4, embed=9, head=9), [13], head="last-stage")


def test_memory_bends_the_shares():
    assert shares(model([1] * 10), [2, None]) == [(0, 0, 2), (1, 2, 10)]
    assert shares(model([1] * 10, workspace=1), [3, None]) == [(0, 0, 2), (1, 2, 10)]


def test_a_node_that_holds_no_block_is_skipped():
    assert shares(model([2] * 4), [0, None, 1, None]) == [(1, 0, 2), (3, 2, 4)]


def test_the_first_nodes_are_used_unless_only_later_ones_fit():
    assert shares(model([1] * 4), [None] * 3, max_nodes=2) == [(0, 0, 2), (1, 2, 4)]
    assert shares(model([1] * 8), [1, 1, 5, 5], max_nodes=2) == [(2, 0, 4), (3, 4, 8)]


def test_refusals_say_what_each_node_would_need_and_what_is_missing():
    """Four blocks of 10 and a workspace of 1: in two, 21 each, 42 in all, of which there are 5 + 24."""
    expected = r"doesn't fit on 2 nodes: 13 bytes are missing. 0 would need 21 .* has 5; 1 .* 21 .* has 24\. Add"
    with pytest.raises(PlanError, match=expected):
        shares(model([10] * 4, workspace=1), [5, 24])


def test_refusals_say_it_where_memory_suffices_but_no_cut_does():
    with pytest.raises(PlanError, match=r"no cut between blocks, the largest of which needs 10 bytes"):
        shares(model([10] * 4), [15, 15, 15])


def test_a_refusal_counts_the_nodes_that_may_be_used():
    """The two largest of three, in their order."""
    with pytest.raises(PlanError, match=r"on 2 nodes: 11 bytes are missing. 0 would need 20 .* has 15; 2 .* has 14\. "):
        shares(model([10] * 4), [15, 1, 14], max_nodes=2)


def test_a_refusal_without_nodes():
    with pytest.raises(PlanError, match=r"needs 40 bytes of memory and there are no nodes; start one with tc node"):
        shares(model([10] * 4), [])


def every_cut(layers, hosts, limit):
    """All ways to cut ``layers`` blocks over some of the hosts, in order."""
    for count in range(1, min(limit, layers, hosts) + 1):
        for chosen in combinations(range(hosts), count):
            for stops in combinations(range(1, layers), count - 1):
                yield list(zip(chosen, (0, *stops), (*stops, layers), strict=True))


MEMORY = st.one_of(st.none(), st.integers(0, 30), st.just(10**12))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(MEMORY, min_size=1, max_size=4),
    st.integers(1, 4),
    st.sampled_from(["coordinator", "last-stage"]),
    st.booleans(),
)
def test_the_largest_share_is_the_smallest_possible(blocks, memory, limit, head, tied):
    profile, ends = model(blocks, embed=3, head=5, workspace=1, tied=tied), head == "last-stage"

    def sizes(cut):
        spans = [Span(a, b, ends and a == 0, ends and b == len(blocks)) for _, a, b in cut]
        return [profile.needed(span) for span in spans]

    def fits(cut):
        rooms = [memory[host] for host, _, _ in cut]
        return all(room is None or size <= room for room, size in zip(rooms, sizes(cut), strict=True))

    possible = [cut for cut in every_cut(len(blocks), len(memory), limit) if fits(cut)]
    if not possible:
        with pytest.raises(PlanError, match=r"\d"):
            shares(profile, memory, head, limit)
        return
    best = min(max(sizes(cut)) for cut in possible)
    equal = [cut for cut in possible if max(sizes(cut)) == best]
    found = shares(profile, memory, head, limit)
    assert found in equal
    assert len(found) == max(map(len, equal))
    assert sum(s * s for s in sizes(found)) == min(sum(s * s for s in sizes(c)) for c in equal if len(c) == len(found))


ROOM = st.one_of(st.none(), st.just(0), st.just(1), st.just(10), st.just(10**9), st.integers(0, 200))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 80), st.lists(ROOM, min_size=1, max_size=100))
def test_any_cluster_gets_a_cover_or_a_refusal(layers, memory):
    """DIST-16: contiguous, disjoint, complete, no empty share, no node without memory, the same every time."""
    try:
        found = shares(model([1] * layers), memory)
    except PlanError:
        assert None not in memory
        assert sum(memory) < layers
        return
    assert [0, *(stop for _, _, stop in found)] == [*(start for _, start, _ in found), layers]
    assert all(stop > start and memory[node] != 0 for node, start, stop in found)
    assert shares(model([1] * layers), memory) == found
