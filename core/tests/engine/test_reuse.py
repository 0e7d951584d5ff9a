"""Equal beginnings: which pages a sequence starts with, and how long they are kept."""

from __future__ import annotations

import pytest
from scheduled import EOS, House, events

from truecluster._engine.pages import Pages, lengthen
from truecluster._engine.requests import CachedEvent, TokenEvent
from truecluster._wire.steps import Opened
from truecluster.nn import PAGE

SYSTEM = list(range(100, 1100))
SHARED = 1000 // PAGE * PAGE


def through(house: House, token: int = EOS) -> list[int]:
    """Steps until one gives a token; how many tokens each had."""
    lengths = []
    while (step := house.step()) is not None:
        lengths.append(len(step.ids))
        house.answer(step, lambda row: token)
    return lengths


def test_the_second_of_two_with_one_beginning_starts_where_they_part():
    house = House(pages=80, max_tokens=256, context=2000)
    house.add([*SYSTEM, 7, 8, 9])
    assert sum(through(house)) == 1003
    second = house.add([*SYSTEM, 5, 6])
    step = house.step()
    assert step.opened == (Opened(2, SHARED),)
    assert len(step.ids) == 1002 - SHARED
    assert len(step.pages) == 32
    house.answer(step)
    assert events(second) == [CachedEvent(SHARED), TokenEvent(7)]


def test_a_sequences_own_pages_are_not_told_as_found():
    """It gives them up to an older one, and they still rest there when it goes on."""
    house = House(pages=80, max_tokens=256)
    first = house.add(SYSTEM[:200])
    house.answer(house.step())
    assert events(first) == [TokenEvent(7)]
    first.forget()
    first.start([0, 1])
    first.tell()
    assert events(first) == [TokenEvent(7)]


def test_the_last_token_always_goes_through_the_stages():
    house = House(pages=80, max_tokens=256)
    prompt = SYSTEM[: 2 * PAGE]
    for opened in (Opened(1), Opened(2, PAGE)):
        house.add(prompt)
        step = house.step()
        assert step.opened == (opened,)
        house.answer(step, lambda row: EOS)


def test_an_answer_is_part_of_the_beginning():
    """The next turn of a chat holds the last one's answer."""
    house = House(pages=80, max_tokens=256)
    house.add(SYSTEM[:20], max_tokens=50)
    through(house, token=33)
    house.add([*SYSTEM[:20], *[33] * 50, 1, 2, 3])
    assert house.step().opened == (Opened(2, 2 * PAGE),)


def test_those_who_come_together_let_the_first_one_make_the_pages():
    house = House(pages=80, sequences=4, max_tokens=2000, context=2000)
    for last in range(4):
        house.add([*SYSTEM, last])
    steps = [house.step()]
    assert steps[0].opened == (Opened(1),)
    house.answer(steps[0])
    while (step := house.step()) is not None and len(steps) < 5:
        steps.append(step)
        house.answer(step)
    assert {opened for step in steps for opened in step.opened} == {Opened(1), *(Opened(i, SHARED) for i in (2, 3, 4))}


def test_one_who_waits_for_pages_goes_on_when_their_maker_is_cancelled():
    house = House(pages=80, sequences=2, max_tokens=100, context=2000)
    maker, waits = house.add([*SYSTEM, 1]), house.add([*SYSTEM, 2])
    house.answer(house.step())
    house.answer(house.step())
    maker.cancelled = True
    step = house.step()
    assert step.opened == (Opened(2, 200 // PAGE * PAGE),)
    house.answer(step)
    assert sum(through(house)) + len(step.ids) == len(waits.tokens) - 200 // PAGE * PAGE


def test_layers_that_cant_start_from_pages_share_none():
    house = House(pages=80, max_tokens=2000, context=2000, cached_starts=False)
    for _ in range(2):
        house.add(SYSTEM)
        assert through(house) == [1000, 0], "the last one only tells the stages that it ended"


def test_pages_that_nobody_holds_are_free_and_the_last_used_stay_longest():
    pages = Pages(3)
    chains = [chain_of([number] * PAGE) for number in range(4)]
    for chain in chains[:3]:
        page = pages.take()
        pages.keep(page, chain[0])
        pages.release([page])
    assert pages.free == 3
    pages.release(pages.share(chains[0]))
    assert pages.take() is not None
    assert [pages.known(chain) for chain in chains] == [1, 0, 1, 0]


def test_the_first_pages_of_a_sequence_stay_longer_than_its_last():
    pages = Pages(3)
    chain = chain_of(list(range(3 * PAGE)))
    held = [pages.take() for _ in range(3)]
    for page, key in zip(held, chain, strict=True):
        pages.keep(page, key)
    pages.release(held)
    assert pages.take() == held[2]
    assert pages.known(chain) == 2
    assert pages.held(chain) == 0


def test_a_held_page_isnt_taken():
    pages = Pages(2)
    first, second = pages.take(), pages.take()
    assert pages.take() is None
    pages.release([second])
    assert (pages.take(), pages.take()) == (second, None)
    assert first != second


def chain_of(tokens: list[int]) -> list[bytes]:
    chain: list[bytes] = []
    lengthen(chain, tokens)
    return chain


@pytest.mark.parametrize("at", [0, PAGE - 1, PAGE, 2 * PAGE - 1])
def test_a_key_stands_for_every_token_from_the_first_on(at):
    tokens = list(range(3 * PAGE + 5))
    other = [*tokens[:at], 999, *tokens[at + 1 :]]
    ours, theirs = chain_of(tokens), chain_of(other)
    assert len(ours) == 3
    assert [a == b for a, b in zip(ours, theirs, strict=True)] == [i < at // PAGE for i in range(3)]


def test_a_chain_grows_as_its_tokens_do():
    tokens = list(range(2 * PAGE))
    chain = chain_of(tokens[:-1])
    assert len(chain) == 1
    lengthen(chain, tokens)
    assert chain == chain_of(tokens)
