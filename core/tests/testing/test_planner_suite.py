"""The suite of planners catches planners that are wrong."""

from __future__ import annotations

import random

import pytest

from truecluster.api import COORDINATOR, Placement, PlanError, Planner, Span
from truecluster.testing.planner import PlannerContract


class Fill(Planner):
    """A right one: each node takes as many blocks as fit, the last allowed one the rest."""

    def plan(self, model, nodes, limits):
        layers, ends, start, plan = len(model.blocks), limits.head == "last-stage", 0, []
        for node in sorted(nodes, key=lambda node: node.memory is not None)[: limits.max_nodes]:
            fits = [stop for stop in range(start + 1, layers + 1) if self.fits(model, node, start, stop, ends)]
            if fits and start < layers:
                plan.append(Placement(node.id, Span(start, fits[-1], ends and start == 0, ends and fits[-1] == layers)))
                start = fits[-1]
        if start < layers:
            raise PlanError(f"{start} of {layers} blocks fit")
        first, last = Placement(COORDINATOR, Span(0, 0, True)), Placement(COORDINATOR, Span(layers, layers, head=True))
        return plan if ends else [first, *plan, last]

    def fits(self, model, node, start, stop, ends):
        span = Span(start, stop, ends and start == 0, ends and stop == layers_of(model))
        return node.memory is None or model.needed(span) <= node.memory


def layers_of(model):
    return len(model.blocks)


class Careless(Fill):
    """Doesn't look at memory."""

    def fits(self, model, node, start, stop, ends):
        return True


class Headless(Fill):
    """Always puts the ends on nodes."""

    def plan(self, model, nodes, limits):
        plan = super().plan(model, nodes, limits)
        return [Placement(p.node, Span(p.span.start, p.span.stop)) for p in plan]


class Moody(Fill):
    """Shuffles the nodes."""

    def plan(self, model, nodes, limits):
        nodes = [node for node in nodes if node.memory is None] or list(nodes)
        return super().plan(model, random.sample(nodes, len(nodes)), limits)


class Overlapping(Fill):
    """Hosts a block twice."""

    def plan(self, model, nodes, limits):
        plan = list(super().plan(model, nodes, limits))
        return [*plan[:-1], plan[-2], plan[-1]]


class _Suite(PlannerContract):
    made: type[Planner] = Fill

    @pytest.fixture
    def planner(self):
        return self.made()


class SuiteOfFill(_Suite):
    pass


class SuiteOfCareless(_Suite):
    made = Careless


class SuiteOfHeadless(_Suite):
    made = Headless


class SuiteOfMoody(_Suite):
    made = Moody


class SuiteOfOverlapping(_Suite):
    made = Overlapping


def test_a_right_planner_passes(failures):
    assert failures(SuiteOfFill) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (SuiteOfCareless, "test_what_does_not_fit_is_refused_with_numbers"),
        (SuiteOfHeadless, "test_every_part_is_placed_once_in_order"),
        (SuiteOfMoody, "test_the_same_question_has_the_same_answer"),
        (SuiteOfOverlapping, "test_a_node_hosts_one_stage_with_a_block_that_it_has_memory_for"),
    ],
)
def test_a_wrong_planner_is_caught(failures, suite, caught):
    assert caught in failures(suite)
