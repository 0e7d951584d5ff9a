"""Constraints through whole runs of a random model: any layout, beside other requests, with what else sampling does."""

from __future__ import annotations

import queue
import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from local_runs import EngineHouse
from tiny_models import TinyModel

from truecluster._engine.requests import Event, FinishedEvent, Request, Sampling, TokenEvent
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._wire.steps import decode as decode_step
from truecluster.api import RequestError

MODEL = TinyModel.make()
VOCAB = MODEL.config.vocab
LAYOUTS = [(1, "last-stage"), (3, "last-stage"), (2, "coordinator")]
SAMPLED = Sampling(temperature=1.3, top_p=0.95, seed=6)
PENALIZED = attrs.evolve(SAMPLED, repetition_penalty=1.3, frequency_penalty=0.3, logit_bias={3: 1.0, 9: -100.0})


@attrs.define
class Drawn:
    """Each next token is one of four, which ones depends on the answer so far; every seventh may be the end, id 0."""

    length: int = 100
    answer: list[int] = attrs.field(factory=list)

    @property
    def allowed(self) -> set[int]:
        chosen = random.Random(str(self.answer)).sample(range(1, VOCAB), 4)
        return {*chosen, *([0] if len(self.answer) % 7 == 6 else [])}

    def mask(self) -> bytes:
        return sum(1 << id for id in self.allowed).to_bytes(VOCAB // 8 + 1, "little")

    def accept(self, token: int) -> bool:
        assert token in self.allowed
        self.answer.append(token)
        return len(self.answer) == self.length


def heard(events: queue.SimpleQueue[Event]) -> list[Event]:
    """All that is told of a request."""
    found = [events.get(timeout=60)]
    while not isinstance(found[-1], FinishedEvent):
        found.append(events.get(timeout=60))
    return found


class House(EngineHouse):
    """An engine over runs of a tiny model."""

    def __init__(self, stages: int, head: str, numbers: dict[str, int] | None = None, **options: Any) -> None:
        super().__init__(MODEL, stages, head, numbers, **options)

    def ask(self, *requests: Request) -> list[list[Event]]:
        """All at once."""
        events: list[queue.SimpleQueue[Event]] = [queue.SimpleQueue() for _ in requests]
        for request, each in zip(requests, events, strict=True):
            self.engine.submit(request, each.put)
        return [heard(each) for each in events]


def asked(prompt: Sequence[int] = (5, 6, 7, 12), count: int = 30, constrained: bool = True, **more: Any) -> Request:
    constraint = Drawn if constrained else None
    more = {"sampling": SAMPLED, "eos": frozenset({0}), **more}
    return Request(prompt=tuple(prompt), max_tokens=count, constraint=constraint, **more)


def ids(events: Sequence[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, TokenEvent)]


def outcome(events: Sequence[Event]) -> tuple[list[int], str]:
    return ids(events), events[-1].reason


def follows(answer: Sequence[int]) -> bool:
    """Whether a constraint would take it."""
    constraint = Drawn()
    return all(token in constraint.allowed and not constraint.accept(token) for token in answer)


REQUESTS = [
    asked(),
    asked(constrained=False),
    asked(sampling=Sampling()),
    asked(sampling=PENALIZED),
    asked(sampling=PENALIZED, choice=1),
    asked(sampling=PENALIZED, choice=2),
    asked(prompt=range(1, 50), sampling=attrs.evolve(SAMPLED, logprobs=3)),
    asked(prompt=(8,), constrained=False, sampling=PENALIZED),
]


@pytest.fixture(scope="module")
def alone() -> list[list[Event]]:
    """Each request with nobody beside it."""
    with House(1, "last-stage") as house:
        return [house.ask(request)[0] for request in REQUESTS]


def test_answers_follow_their_constraints_and_end_where_they_may(alone):
    for request, events in zip(REQUESTS, alone, strict=True):
        answer, end = ids(events), events[-1]
        assert follows(answer) is (request.constraint is not None)
        assert end.generated == len(answer) + (end.reason == "stop")
        assert end.reason == "length" or len(answer) % 7 == 6 or request.constraint is None
    assert {events[-1].reason for events in alone} == {"stop", "length"}


def test_choices_differ_and_log_probabilities_are_told(alone):
    assert len({tuple(ids(alone[i])) for i in (3, 4, 5)}) == 3
    told = [event.logprobs for event in alone[6] if isinstance(event, TokenEvent)]
    assert all(each is not None and len(each.top) == 3 and each.own <= each.top[0][1] for each in told)
    assert any(each.own < each.top[2][1] for each in told), "the model's own likeliest were always allowed"


@pytest.mark.parametrize(("stages", "head"), LAYOUTS)
def test_the_same_in_any_layout_and_beside_others(alone, stages, head):
    """Also for batch mates that nothing constrains."""
    with House(stages, head) as house:
        assert list(map(outcome, house.ask(*REQUESTS))) == list(map(outcome, alone))


def test_one_that_goes_through_the_stages_again_goes_on_as_it_was(alone):
    """So few pages that sequences give up theirs."""
    requests = [asked(prompt=(5, 6, 7, 12), count=120, choice=choice) for choice in range(3)]
    with House(2, "last-stage") as house:
        expected = house.ask(*requests)
    with House(2, "last-stage", {"pages": 6}) as house:
        assert list(map(outcome, house.ask(*requests))) == list(map(outcome, expected))
    assert all(follows(ids(events)) for events in expected)


def test_masks_are_made_once_their_step_is_on_its_way():
    """The head hears of a mask after the step that names it was sent, so that stages work meanwhile."""
    order: list[tuple[str, int]] = []

    class Watched:
        def __init__(self, edge: Any) -> None:
            self._edge = edge

        def send(self, header: bytes, tensors: Any) -> None:
            self._edge.send(header, tensors)
            order.extend(("step", row.sample) for row in decode_step(header).rows if row.n_logits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._edge, name)

    def watch(apply: Any) -> Any:
        def update(told: SampleUpdate) -> None:
            if told.mask is not None:
                order.append(("mask", told.number))
            apply(told)

        return update

    with House(2, "last-stage", wrap=Watched, update=watch) as house:
        (events,) = house.ask(asked(count=5))
    assert len(ids(events)) == 5
    assert len(order) == 10
    for step, mask in zip(order[::2], order[1::2], strict=True):
        assert (step[0], mask[0], step[1]) == ("step", "mask", mask[1])


def test_a_constraint_that_fails_leaves_the_others_be(alone):
    class Broken(Drawn):
        def mask(self) -> bytes:
            if len(self.answer) == 3:
                raise RequestError("too complex")
            return super().mask()

    with House(2, "last-stage") as house:
        broken, whole = house.ask(attrs.evolve(REQUESTS[0], constraint=Broken), REQUESTS[1])
        assert outcome(*house.ask(REQUESTS[0])) == outcome(alone[0])
    assert outcome(whole) == outcome(alone[1])
    assert (broken[-1].reason, broken[-1].message, ids(broken)) == ("error", "too complex", ids(alone[0])[:3])
