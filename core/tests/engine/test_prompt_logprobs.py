"""How likely a prompt's own tokens are, through whole runs, against an independent forward."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

import pytest
from local_runs import EngineHouse
from scheduled import House as Scheduled
from tiny_models import TinyModel

from truecluster._engine.requests import CachedEvent, Event, FinishedEvent, PromptEvent, Request, Sampling, TokenEvent
from truecluster._engine.sequences import ASKED_AT_ONCE
from truecluster._pipeline.logprobs import Logprobs
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._wire.steps import Row
from truecluster.nn import PAGE

MODEL = TinyModel.make()
LONG = tuple((7 * i + i // 5) % 60 for i in range(3 * PAGE + 9))
LAYOUTS = [(1, "last-stage"), (3, "last-stage"), (1, "coordinator"), (2, "coordinator")]


class House(EngineHouse):
    """An engine over a run of a tiny model."""

    def __init__(self, stages: int, head: str, **numbers: int) -> None:
        self.updates: list[SampleUpdate] = []
        super().__init__(MODEL, stages, head, numbers, update=self._seen)

    def ask(self, prompt: Sequence[int], count: int, scored: bool = True, **sampling: object) -> queue.SimpleQueue:
        heard: queue.SimpleQueue = queue.SimpleQueue()
        request = Request(
            prompt=tuple(prompt),
            max_tokens=count,
            eos=frozenset(),
            sampling=Sampling(logprobs=2, **sampling),
            prompt_logprobs=scored,
        )
        self.engine.submit(request, heard.put)
        return heard

    def _seen(self, apply: Callable[[SampleUpdate], None]) -> Callable[[SampleUpdate], None]:
        return lambda update: (self.updates.append(update), apply(update))[1]


def until_the_end(heard: queue.SimpleQueue) -> list[Event]:
    events = [heard.get(timeout=30)]
    while not isinstance(events[-1], FinishedEvent):
        events.append(heard.get(timeout=30))
    return events


def ids(events: Sequence[Event]) -> list[int]:
    """Of the answer."""
    return [event.id for event in events if isinstance(event, TokenEvent)]


def check(events: Sequence[Event], prompt: Sequence[int], count: int, greedy: bool = True) -> None:
    """First every token of the prompt but the first, then the answer's, each as the whole distribution has it."""
    *told, end = events
    assert (end.reason, end.generated) == ("length", count)
    assert [type(event) for event in told] == [PromptEvent] * (len(prompt) - 1) + [TokenEvent] * count
    whole = [*prompt, *ids(events)]
    expected = MODEL.logits(whole).log_softmax(-1)
    for place, event in enumerate(told):
        assert event.logprobs.own == pytest.approx(float(expected[place, whole[place + 1]]), abs=1e-4)
        best = expected[place].topk(2)
        assert [id for id, _ in event.logprobs.top] == best.indices.tolist()
        assert [value for _, value in event.logprobs.top] == pytest.approx(best.values.tolist(), abs=1e-4)
    if greedy:
        assert ids(events) == MODEL.greedy(prompt, count)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout[0]}-{layout[1]}")
def test_a_prompt_is_told_before_its_answer_beside_others(houses, layout):
    """Short, in several chunks, and of one token, which nothing comes before."""
    houses.append(House(*layout))
    others = [houses[0].ask((i,), 30, scored=False) for i in range(2)]
    prompts = [((5, 6, 7, 12), 6), (LONG, 3), ((9,), 4), (LONG, 0), ((9,), 0), (LONG[:40], 1)]
    asked = [(houses[0].ask(prompt, count), prompt, count) for prompt, count in prompts]
    for heard, prompt, count in asked:
        check(until_the_end(heard), prompt, count)
    assert all(len(until_the_end(other)) == 31 for other in others)


def test_penalties_and_bias_change_the_answer_and_no_log_probability(houses):
    houses.append(House(2, "last-stage"))
    rules = {"repetition_penalty": 1.5, "presence_penalty": 1.0, "logit_bias": {17: 2.5}, "temperature": 1.0, "seed": 4}
    check(until_the_end(houses[0].ask(LONG, 8, **rules)), LONG, 8, greedy=False)
    plain = until_the_end(houses[0].ask(LONG, 8, scored=False, **rules))
    told = until_the_end(houses[0].ask(LONG, 8, **rules))
    assert ids(told) == ids(plain), "as without them"


def test_pages_that_others_made_are_not_begun_with_but_left_to_others(houses):
    houses.append(House(1, "coordinator"))
    for _ in range(2):
        check(until_the_end(houses[0].ask(LONG, 2)), LONG, 2)
    events = until_the_end(houses[0].ask([*LONG, 3], 2, scored=False))
    assert events[0] == CachedEvent(3 * PAGE)
    assert ids(events) == MODEL.greedy([*LONG, 3], 2)


def test_a_sequence_that_goes_through_the_stages_again_tells_everything_once(houses):
    """Two that grow to seven pages each share twelve, so that one must be sent again."""
    prompts = [(i, *LONG[:32]) for i in range(2)]
    houses.append(House(2, "last-stage", pages=12))
    both = threading.Event()  # before which another one holds the engine, so that they begin together
    houses[0].engine.submit(Request(prompt=(1,), max_tokens=1, eos=frozenset()), lambda event: both.wait(20))
    asked = [houses[0].ask(prompt, 190) for prompt in prompts]
    both.set()
    for heard, prompt in zip(asked, prompts, strict=True):
        check(until_the_end(heard), prompt, 190)
    assert len(houses[0].updates) > 3


def test_few_logits_are_asked_for_at_once_and_the_chunks_follow_each_other():
    house = Scheduled(max_tokens=500, pages=20)
    house.add(80, prompt_logprobs=True)
    steps = [house.step(), house.step(), house.step()]
    assert [(row.n_tokens, row.n_logits) for step in steps for row in step.rows] == [(32, 32), (32, 32), (16, 16)]
    assert ASKED_AT_ONCE == 32
    assert house.updates[0].given == tuple(range(10, 90))
    assert house.step() is None


def test_what_came_is_not_asked_for_again_and_what_was_on_its_way_is():
    house = Scheduled(max_tokens=500, pages=20)
    sequence = house.add(80, prompt_logprobs=True)
    house.scheduler.answered([0] * 32, [Logprobs(-1.0)] * len(house.step().ids))
    assert house.step().rows == (Row(1, 32, 32, 32, 1),)
    sequence.forget()
    assert (sequence.sent, sequence.asked, sequence.judged) == (0, 32, 33)
    assert [sequence.wanted(count) for count in (32, 33, 64, 80)] == [0, 1, 32, 48]
    assert sequence.chunk == 64
