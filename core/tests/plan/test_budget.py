"""What a plan takes of each node, added up by hand."""

from __future__ import annotations

import attrs
import pytest

from truecluster._plan import PROCESS, shares
from truecluster.api import COORDINATOR, Block, Embed, Head, ModelProfile, NodeProfile, PartProfile, Placement, Span

PARTS = (
    PartProfile(part=Embed(), wire=0, resident=100),
    *(PartProfile(part=Block(i), wire=0, resident=10, state=3) for i in range(4)),
    PartProfile(part=Head(), wire=0, resident=100),
)
MODEL = ModelProfile(name="toy", parts=PARTS, workspace=7)
NODES = (
    NodeProfile(id="a", device="cpu", memory=1000),
    NodeProfile(id="b", device="cuda:1", memory=40),
    NodeProfile(id="c", device="mps"),
)


def test_ends_at_the_coordinator_are_one_row_with_two_stages():
    placements = [
        Placement(COORDINATOR, Span(0, 0, embed=True)),
        Placement("a", Span(0, 1)),
        Placement("b", Span(1, 3)),
        Placement("c", Span(3, 4)),
        Placement(COORDINATOR, Span(4, 4, head=True)),
    ]
    own, a, b, c = shares(placements, MODEL, NODES)
    assert (own.node, own.span, own.weights, own.ends, own.state) == (COORDINATOR, "embed, head", 0, 200, 0)
    assert (own.workspace, own.needed, own.free, own.margin) == (14, PROCESS + 214, None, None)
    assert (a.weights, a.ends, a.state, a.workspace, a.process) == (10, 0, 3, 7, PROCESS)
    assert (a.needed, a.free, a.margin) == (PROCESS + 20, PROCESS + 1000, 980)
    assert (b.span, b.weights, b.state, b.process, b.needed, b.free, b.margin) == ("blocks 1-2", 20, 6, 0, 33, 40, 7)
    assert (c.needed, c.free, c.margin) == (20, None, None)


@pytest.mark.parametrize(("tied", "ends"), [(False, 200), (True, 100)])
def test_a_tied_matrix_counts_once_where_both_ends_are(tied, ends):
    model = attrs.evolve(MODEL, tied=tied)
    (only,) = shares([Placement("a", Span(0, 4, embed=True, head=True))], model, NODES)
    assert (only.ends, only.needed) == (ends, PROCESS + 40 + ends + 12 + 7)
    own = shares([Placement("a", Span(0, 0, embed=True)), Placement("a", Span(4, 4, head=True))], model, NODES)[0]
    assert own.ends == ends
