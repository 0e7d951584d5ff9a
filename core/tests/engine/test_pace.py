"""How prompts share steps with running streams, on machines whose times are made up."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import attrs
import pytest
from scheduled import House

from truecluster._engine.pace import STRETCH, Pace
from truecluster._engine.sequences import Sequence
from truecluster._pipeline.run import Step


@attrs.frozen
class Machine:
    """Seconds of a step: some, and for each row that decodes and each token of a prompt."""

    step: float
    stream: float
    token: float

    def seconds(self, streams: int, prompt: int) -> float:
        return self.step + self.stream * streams + self.token * prompt


CPU = Machine(0.010, 0.003, 0.005)
SLOW = Machine(0.200, 0.080, 0.100)
GPU = Machine(0.006, 0.0001, 0.00004)
MACHINES = [CPU, SLOW, GPU]


class Timed(House):
    """A house whose clock goes on by what its machine takes; streams never end by themselves."""

    def __init__(self, machine: Machine, noise: Callable[[int], float] = lambda step: 1.0, **numbers) -> None:
        self.now, self.steps, self.machine, self.noise = 0.0, 0, machine, noise
        numbers = {"pages": 4000, "sequences": 12, "max_tokens": 256, "context": 10**6} | numbers
        super().__init__(**numbers, clock=lambda: self.now)
        self.gaps: list[float] = []

    def turn(self) -> Step:
        step = self.step()
        streams = sum(row.n_tokens == row.n_logits == 1 for row in step.rows)
        self.now += self.machine.seconds(streams, len(step.ids) - streams) * self.noise(self.steps)
        self.steps += 1
        self.answer(step)
        return step

    def turns(self, count: int) -> list[float]:
        """The gaps of running streams."""
        gaps = []
        for _ in range(count):
            before = self.now
            self.turn()
            gaps.append(self.now - before)
        return gaps

    def streams(self, count: int) -> None:
        for number in range(count):
            self.add([number] * 20, max_tokens=10**5)
        self.turns(20)


def prompt(number: int, length: int) -> list[int]:
    return [1000 + number] * length


def percentile(gaps: list[float], share: float) -> float:
    return sorted(gaps)[math.ceil(share * len(gaps)) - 1]


@pytest.mark.parametrize("streams", [1, 4, 8])
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_prompts_of_2000_tokens_hardly_touch_running_streams(machine, streams):
    """p99 under 4 times the undisturbed median, though every eighth step takes a third longer than it should."""
    house = Timed(machine, lambda step: 1.33 if step % 8 == 0 else 1.0)
    house.streams(streams)
    undisturbed = median(house.turns(50))
    long = [house.add(prompt(i, 2000), max_tokens=1) for i in range(3)]
    gaps = []
    while not long[-1].finished:
        gaps += house.turns(1)
    assert percentile(gaps, 0.99) < 4 * undisturbed
    at_once = 3 * 2000 * machine.token
    assert sum(gaps) < 2.25 * at_once + 60 * undisturbed


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("busy", [False, True], ids=["", "beside a long prompt"])
def test_a_short_request_among_eight_answers_within_three_steps_and_its_own_prefill(machine, busy):
    house = Timed(machine)
    house.streams(8)
    step = median(house.turns(50))
    if busy:
        house.add(prompt(0, 20_000), max_tokens=1)
        house.turns(30)
    short = house.add(prompt(1, 12), max_tokens=3)
    began = house.now
    house.turn()  # the step that was on its way
    while short.generated == 0:
        house.turn()
    assert house.now - began <= 3 * step + machine.seconds(0, 12) + (3 * step if busy else 0)


def test_short_requests_pass_a_long_prompt_where_a_step_bears_one_token():
    house = Timed(Machine(0.001, 0.001, 0.1))
    house.streams(1)
    long = house.add(prompt(0, 2000), max_tokens=1)
    house.turns(30)
    short = house.add(prompt(1, 12), max_tokens=1)
    house.turns(20)
    assert short.finished
    assert 0 < long.sent < 60


def test_the_rule_by_hand():
    """10 ms without, 5 ms a token: (2.5 - 1) * 10 / 5 tokens."""
    pace = Pace()
    assert pace.prompt_tokens(0, 256, 0) == 256
    pace.observe(0, 256, 0, 1.28)
    assert pace.prompt_tokens(4, 252, 0) == 0
    pace.observe(4, 0, 0, 0.010)
    assert pace.prompt_tokens(4, 252, 0) == 3
    assert pace.prompt_tokens(4, 2, 0) == 2
    assert pace.prompt_tokens(4, 0, 0) == 0
    assert STRETCH == 2.5


def test_tokens_far_back_and_near_the_start_have_a_price_each():
    pace = Pace()
    pace.observe(4, 0, 0, 0.040)
    for _ in range(9):
        pace.observe(4, 10, 0, 0.040 + 10 * 0.002)
        pace.observe(4, 10, 3000, 0.040 + 10 * 0.010)
        pace.observe(4, 0, 0, 0.040)
    assert pace.prompt_tokens(4, 252, 100) == 30
    assert pace.prompt_tokens(4, 252, 3500) == 6
    assert pace.prompt_tokens(4, 252, 10_000) == 6


def test_a_step_carries_at_least_one_token_and_at_most_twice_what_was_allowed():
    pace = Pace()
    pace.observe(0, 100, 0, 100.0)
    pace.observe(2, 0, 0, 0.010)
    allowed = []
    for _ in range(16):
        allowed.append(pace.prompt_tokens(2, 250, 0))
        pace.observe(2, allowed[-1], 0, 0.010)
    assert allowed[0] == 1
    assert all(later <= 2 * earlier for earlier, later in pairwise(allowed))
    assert allowed[-1] > 64


@pytest.mark.parametrize(("slower", "tokens"), [(1.2, 2), (3, 1)])
def test_what_streams_take_alone_is_measured_again_but_the_limit_stays(slower, tokens):
    """25 ms - 12 ms, at 5 ms a token; where a step alone takes 30 ms, prompts may add half of that, at 15 a token."""
    pace = Pace()
    for _ in range(2):
        pace.observe(4, 0, 0, 0.010)
    without = 0
    for _ in range(400):
        allowed = pace.prompt_tokens(4, 252, 0)
        without += allowed == 0
        pace.observe(4, allowed, 0, slower * 0.010 + (0.015 if slower == 3 else 0.005) * allowed)
    assert without == 400 // 17
    assert pace.prompt_tokens(4, 252, 0) == pytest.approx(tokens, abs=0.1)


def test_times_of_long_ago_are_forgotten():
    pace = Pace()
    for cost in (0.001, 0.002):
        for _ in range(30):
            pace.observe(1, 100, 0, 0.010 + 100 * cost)
            pace.observe(1, 0, 0, 0.010)
        assert pace.prompt_tokens(1, 250, 0) == pytest.approx(0.015 / cost, abs=1)


def test_how_a_prompt_is_cut_changes_nothing_for_it():
    house = Timed(CPU)
    house.streams(3)
    long: Sequence = house.add(prompt(0, 300), max_tokens=2)
    rows = []
    while not long.finished:
        step = house.turn()
        rows += [(row.position, row.n_tokens, row.n_logits) for row in step.rows if row.sequence == 4]
    assert [position for position, _, _ in rows] == [sum(n for _, n, _ in rows[:i]) for i in range(len(rows))]
    assert [logits for _, _, logits in rows] == [0] * (len(rows) - 2) + [1, 1]
