"""Every rule of a plan, broken one at a time, and any plan that keeps them."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._plan import validate
from truecluster.api import (
    COORDINATOR,
    Block,
    Embed,
    Head,
    Limits,
    ModelProfile,
    NodeProfile,
    PartProfile,
    Placement,
    PlanError,
    Span,
)

EMBED, HEAD = Placement(COORDINATOR, Span(0, 0, embed=True)), Placement(COORDINATOR, Span(4, 4, head=True))
GOOD = (EMBED, Placement("a", Span(0, 1)), Placement("b", Span(1, 4)), HEAD)
LAST_STAGE = (Placement("a", Span(0, 1, embed=True)), Placement("b", Span(1, 4, head=True)))
NODES = (NodeProfile(id="a", device="cpu", memory=20), NodeProfile(id="b", device="cpu", memory=None))


def model(layers: int = 4, tied: bool = False) -> ModelProfile:
    """A block needs 10 bytes, embed 5, head 7, a stage 2 more."""
    parts = [PartProfile(part=Embed(), wire=5, resident=5)]
    parts += [PartProfile(part=Block(i), wire=6, resident=6, state=4) for i in range(layers)]
    parts.append(PartProfile(part=Head(), wire=7, resident=7))
    return ModelProfile(name="toy", parts=tuple(parts), workspace=2, tied=tied)


def check(placements, head="coordinator", nodes=NODES, max_nodes=None, **changes):
    validate(placements, model(**changes), nodes, Limits(head=head, max_nodes=max_nodes), planner="toy-planner")


def test_good_plans_pass():
    check(GOOD)
    check(LAST_STAGE, head="last-stage")
    check([Placement("b", Span(0, 4, embed=True, head=True))], head="last-stage")


@pytest.mark.parametrize(
    ("placements", "problem"),
    [
        ((), "it has 0 stages"),
        ((EMBED, HEAD), "it has 2 stages"),
        (GOOD[1:-1], "it has 2 stages"),
        ((*GOOD[:3], Placement("c", HEAD.span)), "its last stage is head on node 'c'"),
        ((Placement("a", EMBED.span), *GOOD[1:]), "its first stage is embed on node 'a'"),
        ((EMBED, Placement("a", Span(0, 4, head=True)), HEAD), "holds an end that belongs to 'coordinator'"),
        ((EMBED, GOOD[2], HEAD), "blocks 1-3 on node 'b' begin at block 1, not at 0"),
        ((EMBED, GOOD[1], Placement("b", Span(2, 4)), HEAD), "begin at block 2, not at 1"),
        ((EMBED, GOOD[1], Placement("b", Span(0, 4)), HEAD), "begin at block 0, not at 1"),
        ((EMBED, Placement("b", Span(0, 3)), HEAD), "end at block 3, but the model has 4"),
        ((EMBED, Placement("b", Span(0, 5)), HEAD), "end at block 5, but the model has 4"),
        ((EMBED, *GOOD[1:3], Placement("c", Span(4, 4)), HEAD), "an empty span on node 'c' has no block"),
        ((EMBED, GOOD[1], Placement("c", Span(1, 4)), HEAD), "node 'c' doesn't exist; there are 'a', 'b'"),
        ((EMBED, Placement(COORDINATOR, Span(0, 4)), HEAD), "node 'coordinator' doesn't exist"),
        ((EMBED, Placement("b", Span(0, 2)), Placement("b", Span(2, 4)), HEAD), "'b' hosts 2 stages"),
        ((EMBED, Placement("a", Span(0, 2)), Placement("b", Span(2, 4)), HEAD), "need 22 bytes, 20 are there"),
    ],
)
def test_a_broken_rule_is_named_with_the_planner(placements, problem):
    with pytest.raises(PlanError, match=problem) as caught:
        check(placements)
    assert "planner 'toy-planner'" in str(caught.value)


@pytest.mark.parametrize(
    ("placements", "problem"),
    [
        ((), "it has no stages"),
        ((Placement("a", Span(0, 1)), LAST_STAGE[1]), r"embed is on stages \[\], not on the first alone"),
        ((LAST_STAGE[0], Placement("b", Span(1, 4))), r"head is on stages \[\] of 2"),
        ((LAST_STAGE[0], Placement("b", Span(1, 4, embed=True, head=True))), r"embed is on stages \[0, 1\]"),
        (GOOD, "head is on stages|embed is on stages|doesn't exist|no block"),
    ],
)
def test_ends_on_nodes(placements, problem):
    with pytest.raises(PlanError, match=problem):
        check(placements, head="last-stage")


def test_ends_count_and_a_tied_matrix_counts_once():
    """Four blocks need 40, the stage 2, the head 7, an untied embed 5."""
    plan = [Placement("a", Span(0, 4, embed=True, head=True))]
    node = attrs.evolve(NODES[0], memory=49)
    check(plan, head="last-stage", nodes=[node], tied=True)
    with pytest.raises(PlanError, match="need 54 bytes, 49 are there"):
        check(plan, head="last-stage", nodes=[node])


def test_too_many_nodes():
    with pytest.raises(PlanError, match="it uses 2 nodes, at most 1 are allowed"):
        check(GOOD, max_nodes=1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(1, 12))
def test_cuts_pass_exactly_when_they_partition(stops, layers):
    """Spans between consecutive stops, from 0: valid if strictly rising to the number of layers."""
    spans = [Span(a, b) for a, b in zip([0, *stops], stops, strict=False)]
    nodes = [NodeProfile(id=str(i), device="cpu") for i in range(len(spans))]
    plan = [
        EMBED,
        *(Placement(str(i), s) for i, s in enumerate(spans)),
        Placement(COORDINATOR, Span(layers, layers, head=True)),
    ]
    rising = all(a < b for a, b in zip([0, *stops], stops, strict=False)) and stops[-1] == layers
    if rising:
        check(plan, nodes=nodes, layers=layers)
    else:
        with pytest.raises(PlanError):
            check(plan, nodes=nodes, layers=layers)
