"""The contract of planners.

Each method asks random questions (`_questions`) and looks at one property of the plans; where a planner refuses with
`PlanError`, there is no plan to look at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b

import attrs
import pytest
from hypothesis import given

from truecluster.api import COORDINATOR, Part, Placement, PlanError, Planner, Span

from ._contract import Contract, Installed
from ._questions import Question, easy, hopeless, questions
from .rules import Broken, ranging, refusal, require


class PlannerContract(Contract):
    """Name ``offer``. Plans are checked by rules written out here, not by core's."""

    KIND = "planner"

    @pytest.fixture
    def planner(self, installed: Installed) -> Planner:
        """The planner under test, made with the defaults of its declared options."""
        options = {option.name: option.default for option in installed.spec.options}
        try:
            made: Planner = installed.target(**options)
        except TypeError as error:
            raise Broken("a constructor that takes each declared option as a keyword", error, options) from error
        return made

    @ranging
    @given(asked=questions())
    def test_every_part_is_placed_once_in_order(self, planner: Planner, asked: Question) -> None:
        """The spans of a plan cover embed, every block and head, each exactly once, in the model's order."""
        plan = answer(planner, asked)
        placed: list[Part] = [part for placement in plan for part in placement.span.parts()]
        parts = [part.part for part in asked.model.parts]
        require(not plan or placed == parts, f"{len(parts)} parts in order", shown(plan), asked=asked)

    @ranging
    @given(asked=questions())
    def test_the_ends_lie_where_limits_put_them(self, planner: Planner, asked: Question) -> None:
        """Embed and head are stages of their own at the coordinator; with head=last-stage nothing is there."""
        plan = answer(planner, asked)
        layers = len(asked.model.blocks)
        first, last = Span(0, 0, embed=True), Span(layers, layers, head=True)
        ends = asked.limits.head == "coordinator"
        wanted = [Placement(COORDINATOR, first), Placement(COORDINATOR, last)] if ends else []
        found = [placement for placement in plan if placement.node == COORDINATOR]
        require(not plan or found == wanted, shown(wanted) or f"nothing on {COORDINATOR}", shown(plan), asked=asked)

    @ranging
    @given(asked=questions())
    def test_a_stage_fits_the_memory_of_its_node(self, planner: Planner, asked: Question) -> None:
        """Weights, state and workspace of a stage (`ModelProfile.needed`) are at most its node's memory, if known."""
        memory = {node.id: node.memory for node in asked.nodes}
        for placement in on_nodes(answer(planner, asked)):
            room, needed = memory.get(placement.node), asked.model.needed(placement.span)
            expected = f"at most {room} bytes on {placement.node}"
            require(room is None or needed <= room, expected, f"{placement.span} needs {needed}", asked=asked)

    @ranging
    @given(asked=questions())
    def test_a_node_hosts_at_most_one_stage(self, planner: Planner, asked: Question) -> None:
        """No node has two stages."""
        plan = answer(planner, asked)
        counts = Counter(placement.node for placement in on_nodes(plan))
        require(max(counts.values(), default=1) == 1, "each node once", shown(plan), asked=asked)

    @ranging
    @given(asked=questions())
    def test_only_nodes_that_were_given_host(self, planner: Planner, asked: Question) -> None:
        """A stage is on the id of a node that was given, or on the coordinator."""
        plan = answer(planner, asked)
        ids = {node.id for node in asked.nodes}
        require({placement.node for placement in on_nodes(plan)} <= ids, f"nodes of {ids}", shown(plan), asked=asked)

    @ranging
    @given(asked=questions())
    def test_no_more_nodes_than_allowed_are_used(self, planner: Planner, asked: Question) -> None:
        """At most ``limits.max_nodes`` nodes have stages."""
        plan, allowed = answer(planner, asked), asked.limits.max_nodes
        used = len({placement.node for placement in on_nodes(plan)})
        require(allowed is None or used <= allowed, f"at most {allowed} nodes", shown(plan), asked=asked)

    @ranging
    @given(asked=questions())
    def test_a_stage_on_a_node_has_a_block(self, planner: Planner, asked: Question) -> None:
        """A node that is used hosts at least one block; where nodes outnumber blocks, some stay unused."""
        plan = answer(planner, asked)
        empty = [placement for placement in on_nodes(plan) if placement.span.stop <= placement.span.start]
        require(not empty, "a block on each node that is used", shown(plan), asked=asked)

    @ranging
    @given(asked=questions())
    def test_a_plan_is_a_sequence(self, planner: Planner, asked: Question) -> None:
        """`plan` returns a sequence, such as a list or a tuple, of `Placement`."""
        try:
            plan = planner.plan(asked.model, asked.nodes, asked.limits)
        except PlanError:
            return
        sound = isinstance(plan, Sequence) and all(isinstance(placement, Placement) for placement in plan)
        require(sound, "a sequence of Placement", plan, asked=asked)

    @ranging
    @given(asked=questions())
    def test_the_same_question_has_the_same_answer(self, planner: Planner, asked: Question) -> None:
        """Planning is pure: no chance, no clock, no memory of earlier questions, no order of a set of strings."""
        first, second = (answer(planner, _hashed_anew(asked, salt)) for salt in (1, 2))
        require(first == second, shown(first), shown(second), asked=asked)

    @ranging
    @given(asked=questions())
    def test_what_it_is_given_stays_as_it_is(self, planner: Planner, asked: Question) -> None:
        """`plan` doesn't sort, extend or empty the list of nodes that it is given."""
        given = list(asked.nodes)
        with suppress(PlanError):
            planner.plan(asked.model, given, asked.limits)
        ids, left = ([node.id for node in nodes] for nodes in (asked.nodes, given))
        require(given == list(asked.nodes), f"nodes {ids}", f"nodes {left}", asked=asked)

    @ranging
    @given(asked=easy())
    def test_what_one_node_can_hold_is_not_refused(self, planner: Planner, asked: Question) -> None:
        """Where one node alone can hold the model, by its memory or because that is unknown, there is a plan."""
        try:
            planner.plan(asked.model, asked.nodes, asked.limits)
        except Exception as error:
            raise Broken("a plan: node z holds all of the model", error, {"asked": asked}) from error

    @ranging
    @given(asked=hopeless())
    def test_what_fits_nowhere_is_refused_with_numbers(self, planner: Planner, asked: Question) -> None:
        """Where no node can hold a block, or there is none, `PlanError` says the bytes needed and the bytes there."""
        with refusal(PlanError, r"\d", asked=asked) as refused:
            planner.plan(asked.model, asked.nodes, asked.limits)
        numbers = re.findall(r"\d[\d.,_]*", str(refused[0]))
        require(len(numbers) > bool(asked.nodes), "needed and present bytes in words", refused[0], asked=asked)

    def test_an_option_that_is_not_declared_is_refused(self, installed: Installed) -> None:
        """The constructor takes no keyword that the spec doesn't declare, as ``**options`` would."""
        options = {option.name: option.default for option in installed.spec.options}
        with refusal(TypeError, "", options={**options, "no_such_option": 1}):
            installed.target(**options, no_such_option=1)


def answer(planner: Planner, asked: Question) -> list[Placement]:
    """The plan, empty where the planner refuses."""
    try:
        return list(planner.plan(asked.model, asked.nodes, asked.limits))
    except PlanError:
        return []
    except Exception as error:
        raise Broken("a plan, or PlanError", error, {"asked": asked}) from error


def on_nodes(plan: Sequence[Placement]) -> list[Placement]:
    """The placements that aren't on the coordinator."""
    return [placement for placement in plan if placement.node != COORDINATOR]


def shown(plan: Sequence[Placement]) -> str:
    """A plan in words."""
    return ", ".join(f"{placement.node}: {placement.span}" for placement in plan)


class _Salted(str):
    """A string that hashes as it might in another process, where Python draws another seed; the same for each salt."""

    salt = 0

    def __new__(cls, text: str, salt: int) -> _Salted:
        made = super().__new__(cls, text)
        made.salt = salt
        return made

    def __hash__(self) -> int:
        salted = blake2b(self.encode(), digest_size=8, salt=bytes([self.salt]))
        return int.from_bytes(salted.digest(), "little")

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True

    def __str__(self) -> str:
        return self


def _hashed_anew(asked: Question, salt: int) -> Question:
    return attrs.evolve(asked, nodes=tuple(attrs.evolve(node, id=_Salted(node.id, salt)) for node in asked.nodes))
