"""The contract of planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from truecluster.api import (
    COORDINATOR,
    Block,
    Embed,
    Head,
    Limits,
    ModelProfile,
    NodeProfile,
    Part,
    PartProfile,
    Placement,
    PlanError,
    Planner,
)

from ._missing import missing

Ends = Literal["coordinator", "last-stage"]
GB = 10**9


def model(blocks: Sequence[int], *, ends: tuple[int, int] = (GB, 2 * GB), workspace: int = GB // 10) -> ModelProfile:
    """A model whose blocks, embed and head need the given bytes, half of a block's being sequence state."""
    profiles = [PartProfile(part=Embed(), wire=ends[0], resident=ends[0])]
    profiles += [
        PartProfile(part=Block(i), wire=size // 2, resident=size - size // 2, state=size // 2)
        for i, size in enumerate(blocks)
    ]
    profiles.append(PartProfile(part=Head(), wire=ends[1], resident=ends[1]))
    return ModelProfile(name="toy", parts=tuple(profiles), workspace=workspace)


def nodes(*memory: int | None) -> list[NodeProfile]:
    """Nodes ``n0``, ``n1``, … with that much memory."""
    return [NodeProfile(id=f"n{i}", device="cpu", memory=bytes) for i, bytes in enumerate(memory)]


SPLITS: tuple[tuple[ModelProfile, list[NodeProfile], int | None], ...] = (
    (model([GB]), nodes(None), None),
    (model([GB] * 24), nodes(None, None), None),
    (model([GB] * 3), nodes(*[None] * 7), None),
    (model([GB] * 24), nodes(100 * GB, None, 9 * GB), 2),
    (model([GB] * 24), nodes(0, 20 * GB, 1, 20 * GB), None),
    (model([GB, 5 * GB, GB, GB, 2 * GB]), nodes(20 * GB, 20 * GB, 20 * GB), None),
    (model([1] * 80, ends=(1, 1), workspace=0), nodes(*[3] * 40), None),
)
"""Model, nodes and the most nodes that may be used; each has a solution with either place of the ends."""


class PlannerContract:
    """Give ``planner``. What it answers is checked by rules written out here, not by core's."""

    @pytest.fixture
    def planner(self) -> Planner:
        """The planner under test, with the options that it is used with."""
        raise missing(self, "the fixture 'planner'", "a Planner")

    @pytest.mark.parametrize("head", ["coordinator", "last-stage"])
    @pytest.mark.parametrize("split", SPLITS)
    def test_every_part_is_placed_once_in_order(
        self, planner: Planner, split: tuple[ModelProfile, list[NodeProfile], int | None], head: Ends
    ) -> None:
        profile, there, limit = split
        plan = planner.plan(profile, there, Limits(head=head, max_nodes=limit))
        placed: list[Part] = [part for placement in plan for part in placement.span.parts()]
        assert placed == [part.part for part in profile.parts]

    @pytest.mark.parametrize("head", ["coordinator", "last-stage"])
    @pytest.mark.parametrize("split", SPLITS)
    def test_a_node_hosts_one_stage_with_a_block_that_it_has_memory_for(
        self, planner: Planner, split: tuple[ModelProfile, list[NodeProfile], int | None], head: Ends
    ) -> None:
        profile, there, limit = split
        plan = planner.plan(profile, there, Limits(head=head, max_nodes=limit))
        hosts = inner(plan, head)
        memory = {node.id: node.memory for node in there}
        assert len({placement.node for placement in hosts}) == len(hosts) <= (limit or len(there))
        for placement in hosts:
            room = memory[placement.node]
            assert placement.span.stop > placement.span.start
            assert room is None or profile.needed(placement.span) <= room

    @pytest.mark.parametrize("split", SPLITS)
    def test_the_coordinator_has_both_ends_where_asked(
        self, planner: Planner, split: tuple[ModelProfile, list[NodeProfile], int | None]
    ) -> None:
        profile, there, limit = split
        plan = planner.plan(profile, there, Limits(max_nodes=limit))
        assert [plan[0].node, plan[-1].node] == [COORDINATOR, COORDINATOR]
        assert [str(plan[0].span), str(plan[-1].span)] == ["embed", "head"]

    @pytest.mark.parametrize("split", SPLITS)
    def test_the_same_question_has_the_same_answer(
        self, planner: Planner, split: tuple[ModelProfile, list[NodeProfile], int | None]
    ) -> None:
        profile, there, limit = split
        asked = [planner.plan(profile, tuple(there), Limits(max_nodes=limit)) for _ in range(2)]
        assert list(asked[0]) == list(asked[1])

    @pytest.mark.parametrize("head", ["coordinator", "last-stage"])
    @pytest.mark.parametrize("memory", [(), (0, 0), (GB, GB), (30 * GB, 3 * GB)])
    def test_what_does_not_fit_is_refused_with_numbers(
        self, planner: Planner, memory: tuple[int, ...], head: Ends
    ) -> None:
        with pytest.raises(PlanError, match=r"\d"):
            planner.plan(model([GB] * 40), nodes(*memory), Limits(head=head))


def inner(plan: Sequence[Placement], head: Ends) -> Sequence[Placement]:
    """The placements on nodes."""
    return plan if head == "last-stage" else plan[1:-1]
