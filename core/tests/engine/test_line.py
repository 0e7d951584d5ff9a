"""Who is served next of those that wait."""

from __future__ import annotations

from collections.abc import Sequence as Items

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduled import EOS, House

from truecluster._engine.line import Line
from truecluster._engine.requests import Request
from truecluster._engine.sequences import Sequence
from truecluster._pipeline.sampler import SampleParams


def request(owner: str) -> Sequence:
    asked = Request(prompt=(1,), max_tokens=1, eos=frozenset(), owner=owner)
    return Sequence(asked, SampleParams(), lambda event: None)


def owners(sequences: Items[Sequence]) -> str:
    return "".join(sequence.request.owner for sequence in sequences)


def taken(line: Line) -> list[Sequence]:
    return [line.take() for _ in range(len(line))]


def test_owners_take_turns_and_each_ones_requests_come_in_their_order():
    line, asked = Line(), [request(owner) for owner in "aaabac"]
    line.extend(asked)
    expected = [asked[i] for i in (0, 3, 5, 1, 2, 4)]
    assert list(line) == expected
    assert taken(line) == expected
    assert not line


def test_one_request_among_a_hundred_of_another_owner_is_served_second():
    line = Line()
    line.extend(request("a") for _ in range(100))
    line.append(request("b"))
    assert owners([line.take(), line.take()]) == "ab"
    line.append(request("b"))
    assert owners([line.take(), line.take()]) == "ab"


def test_one_that_was_put_back_is_first_and_takes_nobodys_turn():
    line = Line()
    line.extend([request("a"), request("a"), request("b")])
    younger, older = request("a"), request("b")
    line.put_back(younger)
    line.put_back(older)
    assert [line.take(), line.take()] == [older, younger]
    assert owners(taken(line)) == "aba"


def test_those_that_give_up_are_gone():
    line, asked = Line(), [request(owner) for owner in "aab"]
    back = request("b")
    line.extend(asked)
    line.put_back(back)
    for sequence in (asked[0], back, asked[2]):
        line.remove(sequence)
    assert (list(line), len(line)) == ([asked[1]], 1)
    assert taken(line) == [asked[1]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=30), st.data())
def test_nobody_waits_longer_than_others_take_turns(arrivals, data):
    """So many others as there are owners, for each place that a request has among its owner's."""
    line, waits = Line(), {}
    for owner in arrivals:
        sequence = request(owner)
        waits[sequence] = 4 * (1 + sum(other.request.owner == owner for other in waits))
        line.append(sequence)
        for _ in range(data.draw(st.integers(0, min(2, len(line))))):
            waits.pop(line.take())
            for other in waits:
                waits[other] -= 1
        assert all(left > 0 for left in waits.values())
    for sequence in taken(line):
        assert sequence in waits


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 90), st.integers(1, 40), st.sampled_from("abc"), st.booleans()),
        min_size=1,
        max_size=14,
    ),
    st.integers(1, 3),
    st.integers(2, 5),
)
def test_every_request_ends_within_bounded_steps_in_whatever_order_they_come(arrivals, groups, slots):
    """Each takes at most its tokens alone, so together no more steps than all tokens, those sent again included."""
    house = House(pages=8, sequences=slots, max_tokens=24, groups=groups)
    pending = sorted(enumerate(arrivals), key=lambda each: each[1][0])
    asked, in_flight, steps = [], [], 0
    most = sum(before + prompt + 2 * answer for before, prompt, answer, _, _ in arrivals) * 3 + 30
    while pending or in_flight or not house.scheduler.idle:
        assert steps < most
        while pending and pending[0][1][0] <= steps:
            number, (_, prompt, answer, owner, cancelled) = pending.pop(0)
            asked.append(house.add([number * 100 + i for i in range(prompt)], max_tokens=answer, owner=owner))
            asked[-1].cancelled = cancelled and number % 3 == 0
        step = house.step() if len(in_flight) < 4 else None
        if step is not None:
            in_flight.append(step)
        elif in_flight:
            house.answer(in_flight.pop(0), lambda row: EOS if row.position % 17 == 0 else 3000 + row.position)
        steps += 1
    assert all(sequence.finished for sequence in asked)
    assert house.scheduler.free_pages == 8
