"""In how many groups streams go through the stages, on machines whose times are made up."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from machines import Pipeline, Pipelined, Stage

from truecluster._engine.groups import FIRST, SAMPLES, Groups

CPU = Stage(0.010, 0.003)
"""Eight streams take 34 ms a stage, one takes 13."""
WEIGHTS = Stage(0.100, 0.0001)
"""Reading weights is all that counts."""


def house(stages: int, streams: int, stage: Stage = CPU, together: bool = False, noise=lambda step: 1.0) -> Pipelined:
    made = Pipelined(Pipeline(stage, stages, together, noise))
    made.streams(streams)
    return made


def disturbed(step: int) -> float:
    """Every eighth step takes a third longer, and one in fifty five times as long."""
    return 5.0 if random.Random(step).random() < 0.02 else 1.33 if step % 8 == 0 else 1.0


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("streams", [8, 12, 31])
def test_stages_on_machines_of_their_own_all_work_at_once(stages, streams):
    """A group of the largest size passes every stage, the others follow it: S a + b n at best, S (a + b n) in one."""
    gap = stages * CPU.step + CPU.token * streams
    assert house(stages, streams).settle(1500) >= 0.9 * streams / gap


@pytest.mark.parametrize("streams", [2, 8, 31])
@pytest.mark.parametrize("stages", [2, 3])
def test_stages_that_share_a_machine_have_one_group_and_lose_little_by_trying(stages, streams):
    made = house(stages, streams, together=True)
    assert made.rate(5000 * streams) >= 0.98 * streams / (stages * CPU.seconds(streams))


def test_so_do_stages_whose_time_is_that_of_their_weights():
    made = house(2, 8, WEIGHTS)
    assert made.rate(40_000) >= 0.98 * 8 / (2 * WEIGHTS.seconds(8))


def test_the_first_trial_costs_at_most_seven_gaps():
    streams = 8
    made = house(2, streams, WEIGHTS, together=True)
    began, before = made.now, made.tokens
    made.rate(2 * FIRST * streams)
    alone = 2 * WEIGHTS.seconds(streams)
    assert made.now - began <= (made.tokens - before) / streams * alone + 7 * alone


@pytest.mark.parametrize("together", [False, True])
def test_noise_changes_no_choice_for_long(together):
    made = house(2, 8, together=together, noise=disturbed)
    quiet = house(2, 8, together=together)
    assert made.rate(40_000) >= 0.75 * quiet.rate(40_000), "the noise alone takes an eighth"


def test_one_stream_and_one_stage_are_one_group():
    for stages, streams in ((1, 8), (3, 1)):
        made = house(stages, streams)
        for _ in range(1000):
            made.turn()
            assert not made.in_flight


def test_a_machine_that_is_shared_from_now_on_has_one_group_again():
    made = house(2, 8)
    apart = made.settle(1500)
    made.pipeline.together = True
    assert apart == pytest.approx(8 / (2 * CPU.step + 8 * CPU.token), rel=0.02)
    assert made.settle(1500) == pytest.approx(8 / (2 * CPU.seconds(8)), rel=0.02)


def test_what_was_found_for_many_is_where_more_begin():
    made = house(2, 8)
    made.settle(1500)
    for number in range(8):
        made.add([500 + number] * 20, max_tokens=10**5)
    while made.scheduler.waiting or any(s.generated == 0 for s in made.scheduler.active):
        made.turn()
    assert made.rate(320) == pytest.approx(16 / (2 * CPU.step + 16 * CPU.token), rel=0.1)


def test_prompts_that_come_all_the_time_dont_keep_it_from_being_found():
    """Every stream is replaced after 60 tokens; then a prompt shares some steps, and streams are fewer for a while."""
    made = Pipelined(Pipeline(CPU, 2))
    for number in range(8):
        made.add([number] * 20, max_tokens=7 * (number + 1))
    number, rates = 8, []
    for _ in range(8):
        began, before = made.now, made.tokens
        while made.tokens < before + 4000:
            while len(made.scheduler.active) + len(made.scheduler.waiting) < 8:
                number += 1
                made.add([number] * 20, max_tokens=60)
            made.turn()
        rates.append(4000 / (made.now - began))
    assert rates[-1] > 1.1 * rates[0]


def test_no_stream_waits_for_more_than_all_others_once():
    """With as many streams as fit into half a step, and groups of unequal size while some end."""
    made = Pipelined(Pipeline(CPU, 3), max_tokens=4)
    ends = random.Random(3)
    for number in range(11):
        made.add([number] * 3, max_tokens=ends.randrange(20, 400))
    while any(s.generated == 0 for s in made.scheduler.active) or made.scheduler.waiting:
        made.turn()
    while made.scheduler.active:
        before = {sequence: sequence.generated for sequence in made.scheduler.active}
        for _ in range(2 * 11):
            if made.scheduler.active:
                made.turn()
        assert all(s.finished or s.generated > count for s, count in before.items())


class Table:
    """Groups that are told of gaps by hand."""

    def __init__(self, most: int, gaps: dict[int, float]) -> None:
        self.groups, self.gaps = Groups(most), gaps

    def turns(self, count: int, streams: int = 8) -> list[int]:
        used = []
        for _ in range(count):
            used.append(self.groups.count(streams))
            self.groups.observe(streams, used[-1], False, self.gaps[used[-1]] / used[-1])
        return used


def test_a_trial_by_hand():
    """Two rounds that don't count, then eight gaps of either side; the first gaps of a group are its second rounds."""
    table = Table(2, {1: 1.0, 2: 0.9})
    used = table.turns(FIRST + 200)
    first = used.index(2)
    assert first == FIRST + 2
    assert used[first:][:40] == [2] * (2 * 2 + SAMPLES) + [1] * (2 + SAMPLES) + [2] * (40 - 22)


@pytest.mark.parametrize("rival", [0.96, 1.0, 2.0])
def test_one_that_isnt_clearly_better_is_tried_ever_more_rarely(rival):
    used = Table(2, {1: 1.0, 2: rival}).turns(20_000)
    starts = [i for i in range(1, len(used)) if used[i - 1 : i + 1] == [1, 2]]
    pauses = [b - a for a, b in pairwise(starts)]
    assert pauses[:3] == [pytest.approx(2**i * FIRST, abs=30) for i in (1, 2, 3)]
    assert used.count(2) < 100


def test_a_burst_of_somebody_elses_work_before_a_trial_changes_nothing():
    """The rival looks better than before, but not better than after."""
    table = Table(2, {1: 1.0, 2: 1.2})
    table.turns(FIRST - 10)
    table.gaps[1] = 3.0
    while table.turns(1) == [1]:
        pass
    table.gaps[1] = 1.0
    assert table.turns(200)[60:] == [1] * 140


def test_steps_with_prompts_and_other_numbers_of_streams_tell_nothing():
    groups = Groups(2)
    for i in range(10_000):
        groups.observe(8, groups.count(8), i % 2 == 0, 1.0)
        assert groups.count(8) == 1


def test_a_trial_that_others_disturb_is_given_up():
    table = Table(2, {1: 1.0, 2: 0.5})
    while table.turns(1) == [1]:
        pass
    used = 0
    while table.groups.count(8) == 2:
        table.groups.observe(8, 2, True, 1.0)
        used += 1
    assert used < 100
