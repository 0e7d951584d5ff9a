"""Constraints in tokens: which steps wait for a mask, what the head is told, and how an answer ends."""

from __future__ import annotations

import attrs
import pytest
from scheduled import EOS, House, events, finished

from truecluster._engine.requests import TokenEvent
from truecluster._pipeline.sampler import SampleParams
from truecluster._pipeline.sampling import SampleUpdate
from truecluster.api import RequestError


@attrs.define
class Spelled:
    """The answer must be these ids and may then end; ``closed``: nothing may follow them."""

    ids: tuple[int, ...]
    closed: bool = False
    fails_at: int = -1
    at: int = 0
    accepted: list[int] = attrs.field(factory=list)

    def mask(self) -> bytes:
        if self.at == self.fails_at:
            raise RequestError("the grammar is too large")
        return bytes([1 << (self.ids[self.at] if self.at < len(self.ids) else EOS)])

    def accept(self, token: int) -> bool:
        self.accepted.append(token)
        self.at += 1
        return self.closed and self.at == len(self.ids)


def masks(house: House) -> list[SampleUpdate]:
    """What the head was told since the last step, besides what opens a sequence."""
    return [update for update in house.updates if update.mask is not None]


def sent(house: House):
    """A step is sent, and then the head is told."""
    house.updates.clear()
    step = house.step()
    assert masks(house) == []
    house.scheduler.constrain()
    return step


def test_a_mask_follows_the_step_that_names_it():
    house = House(max_tokens=8)
    house.add(10, constraint=lambda: Spelled((5, 6)))
    assert house.step().rows[0][-2:] == (0, 0)
    assert masks(house) == []
    step = sent(house)
    assert step.rows[0][-2:] == (1, 2)
    assert masks(house) == [SampleUpdate(number=2, sequence=1, params=SampleParams(), mask=bytes([1 << 5]))]
    house.scheduler.constrain()
    assert len(masks(house)) == 1


def test_each_token_has_its_mask_and_the_end_is_told_by_eos():
    house = House()
    sequence = house.add(3, constraint=lambda: Spelled((5, 6)))
    told = []
    for token in (5, 6, EOS):
        step = sent(house)
        told += [(update.number, update.mask) for update in masks(house)]
        assert told[-1][0] == step.rows[0].sample
        house.answer(step, lambda row, token=token: token)
    assert told == [(2, bytes([1 << 5])), (3, bytes([1 << 6])), (4, bytes([1 << EOS]))]
    assert events(sequence) == [TokenEvent(5), TokenEvent(6), finished("stop", 3)]
    assert sequence.constraint.accepted == [5, 6]
    house.rest()


@pytest.mark.parametrize("max_tokens", [2, 9])
def test_an_answer_that_nothing_may_follow_ends_without_an_eos(max_tokens):
    house = House()
    sequence = house.add(3, max_tokens=max_tokens, constraint=lambda: Spelled((5, 6), closed=True))
    for token in (5, 6):
        house.answer(sent(house), lambda row, token=token: token)
    assert events(sequence) == [TokenEvent(5), TokenEvent(6), finished("stop", 2)]
    house.rest()


def test_too_few_tokens_cut_an_answer():
    house = House()
    sequence = house.add(3, max_tokens=1, constraint=lambda: Spelled((5, 6)))
    house.answer(sent(house), lambda row: 5)
    assert events(sequence) == [TokenEvent(5), finished("length", 1)]


def test_batch_mates_have_their_own_masks_or_none():
    house = House()
    house.add(3, constraint=lambda: Spelled((4, 4)))
    house.add(4)
    house.add(5, constraint=lambda: Spelled((7, 7)))
    step = sent(house)
    told = masks(house)
    assert {update.sequence: update.mask for update in told} == {1: bytes([1 << 4]), 3: bytes([1 << 7])}
    by_sequence = {row.sequence: row.sample for row in step.rows}
    assert all(by_sequence[update.sequence] == update.number for update in told)
    assert by_sequence[2] == 2  # the update that opened it


def test_each_choice_has_a_constraint_of_its_own():
    house = House()

    def make() -> Spelled:
        return Spelled((4, 5))

    first, second = house.add(3, constraint=make), house.add(4, constraint=make)
    house.answer(sent(house), lambda row: 4)
    assert first.constraint is not second.constraint
    assert (first.constraint.accepted, second.constraint.accepted) == ([4], [4])


def test_one_that_gave_up_its_pages_goes_on_where_its_answer_is():
    """What the stages forget, the constraint keeps."""
    house = House(pages=10)
    old = house.add(3, max_tokens=200)
    young = house.add(4, max_tokens=200, constraint=lambda: Spelled((5,) * 200))
    seen = []
    while (step := house.step()) is not None:
        house.updates.clear()
        house.scheduler.constrain()
        seen += [(update.sequence, young.constraint.at) for update in masks(house)]
        house.answer(step, lambda row: 5)
    assert old.finished
    assert young.finished
    assert young.constraint.accepted == [5] * 200
    assert len({sequence for sequence, _ in seen}) > 1, "it never left the stages"
    assert sorted({at for _, at in seen}) == list(range(200))


def test_a_constraint_that_fails_ends_its_request_alone_and_the_head_does_not_wait():
    house = House()
    bad = house.add(3, constraint=lambda: Spelled((5, 6), fails_at=1))
    good = house.add(4)
    house.answer(sent(house), lambda row: 5)
    step = sent(house)
    (told,) = masks(house)
    assert (told.number, told.mask) == (next(row.sample for row in step.rows if row.sequence == told.sequence), b"")
    assert events(bad)[1:] == [attrs.evolve(finished("error", 1), message="the grammar is too large")]
    house.answer(step, lambda row: 7)
    assert events(good)[-1] == TokenEvent(7)
    assert len(events(bad)) == 2
    assert house.step().released == (1,)
