"""The scheduler alone: its steps go to a sequence state, as a stage's would, and its answers come from the test."""

from __future__ import annotations

import random

import attrs
import pytest
from scheduled import EOS, House, events, finished

from truecluster._engine.requests import CachedEvent, FinishedEvent, TokenEvent
from truecluster._pipeline.run import Step
from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._wire.steps import Opened, Page, Row
from truecluster.nn import PAGE


def test_tokens_wait_to_be_told_and_come_before_the_end():
    """The engine sends the next step first."""
    house = House()
    sequence = house.add(prompt=3, max_tokens=2)
    for token in (7, 8):
        assert events(sequence) == []
        assert house.step() is not None
        house.scheduler.answered([token])
    assert events(sequence) == [TokenEvent(7), TokenEvent(8), finished("length", 2)]
    house.rest()


def test_a_request_from_its_prompt_to_its_last_token():
    house = House()
    sequence = house.add(3, max_tokens=3)
    step = house.step()
    page = step.pages[0].page
    assert step == Step(
        rows=(Row(1, 0, 3, 1, 1),), ids=[10, 11, 12], opened=(Opened(1),), pages=(Page(1, page),), prefill=True
    )
    assert house.updates == [SampleUpdate(number=1, sequence=1, params=SampleParams())]
    assert house.step() is None
    house.answer(step, lambda row: 30)
    step = house.step()
    assert step == Step(rows=(Row(1, 3, 1, 1, 1),), ids=[30])
    house.answer(step, lambda row: 31)
    house.answer(house.step(), lambda row: 32)
    assert events(sequence) == [TokenEvent(30), TokenEvent(31), TokenEvent(32), finished("length", 3)]
    assert house.step() == Step(rows=(), ids=[], released=(1,))
    assert not house.scheduler.idle
    house.answer(Step(rows=(), ids=[]))
    assert house.scheduler.idle
    assert house.scheduler.free_pages == 8


def test_the_chunks_of_a_prompt_follow_each_other_and_only_the_last_gives_a_token():
    house = House(max_tokens=8)
    house.add(20)
    steps = [house.step(), house.step(), house.step()]
    assert [step.rows for step in steps] == [(Row(1, 0, 8, 0),), (Row(1, 8, 8, 0),), (Row(1, 16, 4, 1, 1),)]
    assert [step.prefill for step in steps] == [True] * 3
    assert house.step() is None
    for step in steps:
        house.answer(step)
    assert house.step().rows == (Row(1, 20, 1, 1, 1),)


def test_pages_are_given_as_they_are_needed():
    house = House(pages=4, max_tokens=40)
    house.add(33, max_tokens=40)
    step = house.step()
    assert len(step.pages) == 2
    given = 2
    for position in range(33, 72):
        house.answer(step)
        step = house.step()
        given += len(step.pages)
        assert given == position // 32 + 1


def test_an_eos_ends_a_request_and_is_counted_but_not_told():
    house = House()
    sequence = house.add(3)
    house.answer(house.step())
    house.answer(house.step(), lambda row: EOS)
    assert events(sequence) == [TokenEvent(7), finished("stop", 2)]


def test_an_eos_at_once_and_at_the_last_token_is_a_stop():
    house = House()
    first, last = house.add(3), house.add(3, max_tokens=1)
    house.answer(house.step(), lambda row: EOS)
    assert events(first) == events(last) == [finished("stop", 1)]


def test_one_token_needs_no_decode():
    house = House()
    sequence = house.add(32, max_tokens=1)
    step = house.step()
    assert len(step.pages) == 1
    house.answer(step)
    assert events(sequence) == [TokenEvent(7), finished("length", 1)]
    house.rest()


def test_a_token_that_could_not_be_sampled_fails_its_request_alone():
    house = House()
    bad, good = house.add(3), house.add(4)
    house.answer(house.step(), lambda row: NOT_A_TOKEN if row.n_tokens == 3 else 7)
    (event,) = events(bad)
    assert (event.reason, event.generated) == ("error", 0)
    assert "not finite" in event.message
    assert events(good) == [TokenEvent(7)]
    assert house.step().released == (1,)


def test_a_request_that_never_fits_is_refused_with_the_numbers():
    house = House(pages=4, context=200)
    big, long, fits = house.add(100, max_tokens=30), house.add(100, max_tokens=102), house.add(100, max_tokens=29)
    step = house.step()
    assert events(big)[0].message == (
        "prompt and answer need 160 tokens of cache, the run has 128; ask for fewer tokens"
    )
    assert events(long)[0].message == (
        "prompt and answer have 201 tokens, a sequence may have 200; ask for fewer tokens"
    )
    assert {event.reason for event in (*events(big), *events(long))} == {"error"}
    assert step.opened == (Opened(1),)
    assert not events(fits)


def test_a_request_waits_until_there_are_pages_for_it_and_is_not_overtaken():
    house = House(pages=4)
    first, second, third = house.add(60, max_tokens=30), house.add(40, max_tokens=30), house.add(3, max_tokens=2)
    step = house.step()
    assert [row.sequence for row in step.rows] == [1]
    assert list(house.scheduler.waiting) == [second, third]
    house.answer(step, lambda row: EOS)
    step = house.step()
    assert step.released == (1,)
    assert {row.sequence for row in step.rows} == {2, 3}
    assert events(first) == [finished("stop", 1)]


def test_no_more_sequences_than_the_run_has_slots_for():
    house = House(sequences=2)
    for _ in range(3):
        house.add(2)
    step = house.step()
    assert len(step.opened) == 2
    house.answer(step, lambda row: EOS)
    step = house.step()
    assert (step.released, step.opened) == ((1, 2), (Opened(3),))


def test_sequences_that_decode_come_before_the_chunks_of_prompts():
    house = House(max_tokens=10)
    house.add(3, max_tokens=9)
    house.answer(house.step())
    house.add(30)
    step = house.step()
    assert step.rows == (Row(1, 3, 1, 1, 1),), "what it takes without prompts is measured first"
    house.answer(step)
    step = house.step()
    assert step.rows == (Row(1, 4, 1, 1, 1), Row(2, 0, 9, 0))
    assert step.prefill
    house.answer(step)
    assert house.step().rows == (Row(1, 5, 1, 1, 1), Row(2, 9, 9, 0))


def test_requests_that_grow_beyond_the_pages_are_all_answered():
    """Each may need eight of twelve pages: the younger ones give way, and go on from their tokens."""
    house = House(pages=12, sequences=3)
    asked = [house.add([number], max_tokens=8 * PAGE) for number in (40, 50, 60)]
    opened = 0
    for _ in range(1000):
        step = house.step()
        if step is None:
            break
        opened += len(step.opened)
        house.answer(step, lambda row: 100 + row.position + row.n_tokens)
    assert opened > 3
    for sequence in asked:
        assert events(sequence) == [*(TokenEvent(101 + i) for i in range(8 * PAGE)), finished("length", 8 * PAGE)]
    assert [len(house.open), house.scheduler.free_pages] == [0, 12]


def test_the_oldest_prompt_isnt_overtaken_for_ever():
    house = House(pages=40, sequences=3, max_tokens=8)
    long = house.add(list(range(200, 300)))
    house.answer(house.step())
    for i in range(60):
        house.add([i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6], max_tokens=1)
    for _ in range(50):
        house.answer(house.step())
    assert long.generated > 0
    assert len(house.scheduler.waiting) > 0


def test_cancelled_while_it_waits():
    house = House(sequences=1)
    house.add(3)
    waits = house.add(3)
    step = house.step()
    waits.cancelled = True
    house.answer(step)
    step = house.step()
    assert events(waits) == [finished("cancelled", 0)]
    assert [row.sequence for row in step.rows] == [1]


@pytest.mark.parametrize("answered", [False, True])
def test_cancelled_between_the_chunks_of_its_prompt(answered):
    house = House(max_tokens=8)
    sequence = house.add(30)
    steps = [house.step(), house.step()]
    if answered:
        house.answer(steps.pop(0))
    sequence.cancelled = True
    assert house.step() is None
    assert events(sequence) == [finished("cancelled", 0)]
    for step in steps:
        house.answer(step)
    assert house.scheduler.free_pages == 8
    house.add(3)
    assert house.step().released == (1,)


def test_cancelled_while_its_token_is_awaited():
    """DIST-10: a late answer is ignored, and the pages are everybody's again."""
    house = House()
    sequence, other = house.add(3), house.add(4)
    house.answer(house.step())
    step = house.step()
    sequence.cancelled = True
    assert house.step() is None
    assert events(sequence) == [TokenEvent(7), finished("cancelled", 1)]
    house.answer(step)
    assert len(events(sequence)) == 2
    assert events(other) == [TokenEvent(7)] * 2
    assert house.step().released == (1,)
    assert house.scheduler.free_pages == 7


def test_a_cancel_after_the_end_changes_nothing():
    house = House()
    sequence = house.add(3, max_tokens=1)
    house.answer(house.step())
    sequence.cancelled = True
    house.rest()
    assert events(sequence) == [TokenEvent(7), finished("length", 1)]


def test_a_failure_ends_what_is_under_way_and_leaves_what_waits():
    house = House(sequences=2)
    running, cancelled, waits = house.add(3), house.add(3), house.add(3)
    house.answer(house.step())
    cancelled.cancelled = True
    house.scheduler.fail("node-1 is gone")
    assert events(running) == [TokenEvent(7), FinishedEvent(reason="error", generated=1, message="node-1 is gone")]
    assert events(cancelled) == [TokenEvent(7), finished("cancelled", 1)]
    assert not events(waits)
    assert list(house.scheduler.waiting) == [waits]


@attrs.frozen
class Mix:
    """Numbers of a random run."""

    pages: int
    sequences: int
    max_tokens: int
    groups: int = 1


MIXES = [
    Mix(6, 3, 16),
    Mix(12, 4, 5),
    Mix(5, 8, 64),
    Mix(3, 1, 1),
    Mix(6, 5, 16, 2),
    Mix(12, 8, 5, 3),
    Mix(9, 8, 64, 3),
]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(3))
def test_any_mix_of_requests_and_cancels_keeps_the_rules_and_comes_to_an_end(mix, seed):
    """The state checks every step; up to four are in flight; at the end every page is free."""
    chance, house = random.Random(seed), House(**attrs.asdict(mix), cached_starts=seed != 0)
    all_of_them, in_flight = [], []
    for _ in range(400):
        if len(all_of_them) < 25 and chance.random() < 0.3:
            all_of_them.append(house.add(chance.randint(1, 70), max_tokens=chance.randint(1, 40)))
        if all_of_them and chance.random() < 0.05:
            chance.choice(all_of_them).cancelled = True
        step = house.step() if len(in_flight) < 4 else None
        if step is not None:
            in_flight.append(step)
        elif in_flight:
            house.answer(in_flight.pop(0), lambda row: chance.choice([EOS, 7, 8, 9, 10, 11]))
    while in_flight or not house.scheduler.idle:
        step = house.step()
        if step is not None:
            in_flight.append(step)
        else:
            house.answer(in_flight.pop(0))
    assert house.scheduler.free_pages == mix.pages
    for sequence in all_of_them:
        *told, last = events(sequence)
        tokens = [event for event in told if not isinstance(event, CachedEvent)]
        assert all(isinstance(event, TokenEvent) for event in tokens)
        assert isinstance(last, FinishedEvent)
        assert last.generated == len(tokens) + (last.reason == "stop")
        fits = sequence.pages_needed <= mix.pages
        assert last.reason in (("stop", "length", "cancelled") if fits else ("error", "cancelled"))


def in_groups(streams: int, groups: int, **numbers) -> tuple[House, list[Step]]:
    """A house whose streams are all under way, in so many steps."""
    house = House(sequences=streams + 1, groups=groups, pages=60, **numbers)
    asked = [house.add(3, max_tokens=900) for _ in range(streams)]
    while any(sequence.generated == 0 for sequence in asked):
        house.answer(house.step())
    steps = []
    while (step := house.step()) is not None:
        steps.append(step)
    return house, steps


def sequences(step: Step) -> list[int]:
    return [row.sequence for row in step.rows]


def test_groups_follow_each_other_and_a_stream_is_in_one_step_at_a_time():
    house, (first, second) = in_groups(5, 2)
    assert (sequences(first), sequences(second)) == ([1, 2, 3], [4, 5])
    house.answer(first)
    third = house.step()
    assert sequences(third) == [1, 2, 3]
    assert house.step() is None
    house.answer(second)
    assert sequences(house.step()) == [4, 5]


def test_groups_become_equal_again_when_some_end():
    house, (first, second) = in_groups(6, 2)
    house.answer(first, lambda row: 7 if row.sequence == 1 else EOS)
    third = house.step()
    assert (sequences(third), third.released) == ([1], (2, 3))
    house.answer(second)
    assert sequences(house.step()) == [4, 5]
    house.answer(third)
    assert sequences(house.step()) == [1, 6]


def test_a_prompts_chunks_ride_with_every_group_but_none_goes_while_all_streams_are_under_way():
    house, (first, second) = in_groups(4, 2, max_tokens=10)
    house.add(list(range(100, 140)))
    house.answer(first)
    house.answer(second)
    steps = [house.step(), house.step()]
    assert [step.rows[-1][:4] for step in steps] == [(5, 0, 8, 0), (5, 8, 8, 0)]
    assert [sequences(step) for step in steps] == [[1, 2, 5], [3, 4, 5]]
    assert house.step() is None


def test_a_stream_gives_up_its_pages_while_its_token_is_under_way_and_loses_only_that():
    """Both hold half of the pages, full of tokens, when the old one needs another."""
    house = House(pages=12, sequences=2, groups=2)
    old, young = house.add([3, 4], max_tokens=250), house.add([5, 6], max_tokens=250)
    house.answer(house.step())
    steps = [house.step(), house.step()]
    while not (steps[-1].released or old.finished):
        house.answer(steps.pop(0))
        taken = set(house.open.get(2, ()))
        steps.append(house.step())
    second, third = steps
    assert (sequences(second), sequences(third), third.released) == ([2], [1], (2,))
    assert {page.page for page in third.pages} < taken
    had = [*young.tokens]
    house.answer(second, lambda row: 99)
    assert young.tokens == had
    assert list(house.scheduler.waiting) == [young]
    while third is not None:
        house.answer(third)
        third = house.step()
    assert [events(sequence)[-1] for sequence in (old, young)] == [finished("length", 250)] * 2


@pytest.mark.parametrize("young", [40, 50, 60])
def test_the_oldest_goes_on_when_those_whose_turn_it_is_get_no_page(young):
    """In as many groups as streams, each is alone in its step, and no page is free for the younger one."""
    house, steps = House(pages=13, sequences=4, groups=2, cached_starts=False), []
    asked = [house.add(65, max_tokens=224), house.add(young, max_tokens=224)]
    while not all(sequence.finished for sequence in asked):
        step = house.step()
        if step is not None:
            steps.append(step)
        else:
            assert steps, "nothing is under way, and nothing is sent"
            house.answer(steps.pop(0))
    assert [sequence.generated for sequence in asked] == [224, 224]


def test_one_that_is_cancelled_in_a_group_leaves_with_the_other_groups_next_step():
    house, (first, second) = in_groups(4, 2)
    cancelled = house.scheduler.active[3]
    cancelled.cancelled = True
    house.answer(first)
    third = house.step()
    assert (third.released, sequences(third)) == ((4,), [1, 2])
    assert events(cancelled)[-1] == finished("cancelled", 1)
    house.answer(second)
    assert sequences(house.step()) == [3]
    assert len(events(cancelled)) == 2
