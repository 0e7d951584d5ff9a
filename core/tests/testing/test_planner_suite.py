"""The suite of planners catches planners that are wrong, each by one method."""

from __future__ import annotations

import random

import attrs
import pytest
from doubles import Double

from truecluster.api import COORDINATOR, Placement, PlanError, Planner, PlannerSpec, Span
from truecluster.testing._contract import Installed
from truecluster.testing.planner import PlannerContract


class Fill(Planner):
    """A right one: a node that holds all, else each node takes as many blocks as fit."""

    def plan(self, model, nodes, limits):
        layers = len(model.blocks)
        plan, start = [], 0
        for node in self.order(model, nodes, limits):
            fits = [stop for stop in range(start + 1, layers + 1) if self.fits(model, node, start, stop, limits)]
            if fits and len(plan) < (self.most(limits) or len(nodes)):
                plan.append(Placement(node.id, span(model, start, fits[-1], limits)))
                start = fits[-1]
        if start < layers:
            there = sum(node.memory or 0 for node in nodes)
            raise PlanError(f"{model.needed(Span(0, layers)):,} bytes are needed, {there:,} are there")
        return plan if limits.head == "last-stage" else [*ends(model)[:1], *plan, *ends(model)[1:]]

    def order(self, model, nodes, limits):
        return sorted(nodes, key=lambda node: not self.fits(model, node, 0, len(model.blocks), limits))

    def most(self, limits):
        return limits.max_nodes

    def fits(self, model, node, start, stop, limits):
        return node.memory is None or model.needed(span(model, start, stop, limits)) <= node.memory


def span(model, start, stop, limits):
    on_nodes = limits.head == "last-stage"
    return Span(start, stop, on_nodes and start == 0, on_nodes and stop == len(model.blocks))


def ends(model):
    layers = len(model.blocks)
    return [Placement(COORDINATOR, Span(0, 0, embed=True)), Placement(COORDINATOR, Span(layers, layers, head=True))]


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, number))


class Primes(Fill):
    """Drops the last block where their count is a prime."""

    def plan(self, model, nodes, limits):
        plan = list(super().plan(model, nodes, limits))
        last = max(i for i, placement in enumerate(plan) if placement.span.stop > placement.span.start)
        if is_prime(len(model.blocks)) and plan[last].span.stop - plan[last].span.start > 1:
            plan[last] = attrs.evolve(plan[last], span=attrs.evolve(plan[last].span, stop=len(model.blocks) - 1))
        return plan


class Endless(Fill):
    """Leaves the ends at the coordinator whatever limits say, where a node's memory isn't known."""

    def plan(self, model, nodes, limits):
        if any(node.memory is None for node in nodes):
            limits = attrs.evolve(limits, head="coordinator")
        return super().plan(model, nodes, limits)


class Stateless(Fill):
    """Counts no state."""

    def fits(self, model, node, start, stop, limits):
        state = sum(block.state for block in model.blocks[start:stop])
        return node.memory is None or model.needed(span(model, start, stop, limits)) - state <= node.memory


class Halving(Fill):
    """Gives a node of unknown memory both halves as stages of their own."""

    def plan(self, model, nodes, limits):
        plan = list(super().plan(model, nodes, limits))
        whole = [i for i, p in enumerate(plan) if p.span.stop - p.span.start == len(model.blocks) > 1]
        for i in whole:
            node, there = plan[i].node, plan[i].span
            first, second = attrs.evolve(there, stop=1, head=False), attrs.evolve(there, start=1, embed=False)
            plan[i : i + 1] = [Placement(node, first), Placement(node, second)]
        return plan


class Inventing(Fill):
    """Calls the node that it uses by its number."""

    def plan(self, model, nodes, limits):
        names = {node.id: str(i) for i, node in enumerate(nodes) if node.memory is None}
        plan = super().plan(model, nodes, limits)
        return [attrs.evolve(p, node=names.get(p.node, p.node)) for p in plan]


class Unlimited(Fill):
    """Fills the small nodes first, and doesn't look at ``max_nodes``."""

    def most(self, limits):
        return None

    def order(self, model, nodes, limits):
        return sorted(nodes, key=lambda node: (node.memory is None, node.memory))


class Generous(Fill):
    """Gives a spare node an empty stage."""

    def plan(self, model, nodes, limits):
        plan = list(super().plan(model, nodes, limits))
        used, layers = {placement.node for placement in plan} - {COORDINATOR}, len(model.blocks)
        fits = [node.id for node in nodes if node.memory is None or node.memory >= model.workspace]
        spare = [node for node in fits if node not in used]
        if spare and limits.head == "coordinator" and len(used) < (limits.max_nodes or len(nodes)):
            plan.insert(-1, Placement(spare[0], Span(layers, layers)))
        return plan


class Lazy(Fill):
    """Yields its plan."""

    def plan(self, model, nodes, limits):
        return (placement for placement in list(super().plan(model, nodes, limits)))


class ByHash(Fill):
    """Goes through a set of names."""

    def order(self, model, nodes, limits):
        known = {node.id: node for node in nodes}
        return super().order(model, [known[name] for name in set(known)], limits)


class Moody(Fill):
    """Shuffles the nodes."""

    def order(self, model, nodes, limits):
        return super().order(model, random.sample(nodes, len(nodes)), limits)


class Sorting(Fill):
    """Sorts the list of its caller."""

    def plan(self, model, nodes, limits):
        if isinstance(nodes, list):
            nodes.sort(key=lambda node: node.id)
        return super().plan(model, nodes, limits)


class Knowing(Fill):
    """Is right only where memory is known: else it takes it for none."""

    def plan(self, model, nodes, limits):
        return super().plan(model, [attrs.evolve(node, memory=node.memory or 0) for node in nodes], limits)


class Wordless(Fill):
    """Refuses without numbers."""

    def plan(self, model, nodes, limits):
        try:
            return super().plan(model, nodes, limits)
        except PlanError:
            raise PlanError("the model doesn't fit") from None


class Swallowing(Fill):
    """Takes any option."""

    def __init__(self, **options):
        pass


class _Suite(PlannerContract):
    made: type[Planner] = Fill

    @pytest.fixture
    def installed(self):
        return Installed(PlannerSpec(name="made", target=f"{__name__}:{self.made.__name__}"), self.made)


class SuiteOfFill(_Suite):
    pass


def suite(planner):
    made = type(f"SuiteOf{planner.__name__}", (_Suite,), {"made": planner, "__module__": __name__})
    globals()[made.__name__] = made
    return made


SUITE = PlannerContract
RIGHT = [SuiteOfFill]
DOUBLES = {
    "test_every_part_is_placed_once_in_order": Double(suite(Primes), "expected: 4 parts .*\n.*\nasked: 2 blocks"),
    "test_the_ends_lie_where_limits_put_them": Double(suite(Endless), "expected: nothing on coordinator"),
    "test_a_stage_fits_the_memory_of_its_node": Double(suite(Stateless), r"at most \d+ bytes on .*\n.* needs \d+"),
    "test_a_node_hosts_at_most_one_stage": Double(suite(Halving), r"each node once\n.*a: .*, a: .*\nasked: 2 blocks"),
    "test_only_nodes_that_were_given_host": Double(suite(Inventing), r"nodes of \{'a'\}\ncame: .* 0: blocks 0-0"),
    "test_no_more_nodes_than_allowed_are_used": Double(suite(Unlimited), r"at most 1 nodes\n.*\n.*max_nodes=1"),
    "test_a_stage_on_a_node_has_a_block": Double(suite(Generous), "a block on each node .*\n.*\nasked: 1 blocks"),
    "test_a_plan_is_a_sequence": Double(suite(Lazy), "a sequence of Placement\ncame: <generator"),
    "test_the_same_question_has_the_same_answer": Double(suite(ByHash), "asked: 1 blocks"),
    "test_what_it_is_given_stays_as_it_is": Double(suite(Sorting), r"nodes \['i', 'h'\]\ncame: nodes \['h', 'i'\]"),
    "test_what_one_node_can_hold_is_not_refused": Double(
        suite(Knowing), "node z holds all .*\ncame: PlanError.*\n.* z unknown"
    ),
    "test_what_fits_nowhere_is_refused_with_numbers": Double(suite(Wordless), "came: PlanError.*the model doesn't fit"),
    "test_an_option_that_is_not_declared_is_refused": Double(suite(Swallowing), "TypeError\ncame: nothing was raised"),
}

SuiteOfMoody = suite(Moody)


def test_chance_is_caught(failures):
    assert failures(SuiteOfMoody) == {"test_the_same_question_has_the_same_answer"}
