"""Penalties and log-probabilities through whole runs, against an independent forward and transformers' processors."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence

import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from local_runs import EngineHouse
from tiny_models import TinyModel
from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

from truecluster._engine.requests import FinishedEvent, Request, Sampling, TokenEvent

MODEL = TinyModel.make()
PROMPT = (5, 6, 7, 12)
LAYOUTS = [(1, "last-stage"), (3, "last-stage"), (1, "coordinator"), (2, "coordinator")]
SAMPLED = Sampling(
    temperature=1.2,
    top_k=40,
    top_p=0.95,
    min_p=0.01,
    repetition_penalty=1.3,
    presence_penalty=0.4,
    frequency_penalty=0.3,
    logit_bias={3: 1.0, 9: -100.0},
    seed=6,
)


@attrs.define(eq=False)
class Asked:
    """What an engine says of a request."""

    events: queue.SimpleQueue = attrs.field(factory=queue.SimpleQueue)

    def tokens(self) -> list[TokenEvent]:
        heard: list[TokenEvent] = []
        while not isinstance(event := self.events.get(timeout=30), FinishedEvent):
            heard.append(event)
        assert event.reason == "length"
        return heard


class House(EngineHouse):
    """An engine over a run of a tiny model."""

    def __init__(self, stages: int, head: str, **numbers: int) -> None:
        super().__init__(MODEL, stages, head, numbers)

    def ask(self, prompt: Sequence[int], sampling: Sampling, count: int, choice: int = 0) -> Asked:
        asked = Asked()
        tokens = Request(prompt=tuple(prompt), max_tokens=count, eos=frozenset(), sampling=sampling, choice=choice)
        self.engine.submit(tokens, asked.events.put)
        return asked


@pytest.fixture(params=LAYOUTS, ids=lambda layout: f"{layout[0]}-{layout[1]}")
def house(request, houses) -> House:
    houses.append(House(*request.param))
    return houses[0]


def ids(tokens: Sequence[TokenEvent]) -> list[int]:
    return [token.id for token in tokens]


def expected(prompt: Sequence[int], count: int, sampling: Sampling) -> list[int]:
    """Greedy with bias and penalties, from logits in fp64; the margin is far above rounding."""
    all_ids, answer = list(prompt), torch.zeros(MODEL.config.vocab)
    for _ in range(count):
        logits = MODEL.logits(all_ids)[-1:].clone()
        for id, value in sampling.logit_bias.items():
            logits[0, id] += value
        logits = RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)(torch.tensor([all_ids]), logits)[0]
        logits -= sampling.frequency_penalty * answer + sampling.presence_penalty * (answer > 0)
        best = logits.topk(2)
        assert float(best.values[0] - best.values[1]) > 1e-4
        all_ids.append(int(best.indices[0]))
        answer[all_ids[-1]] += 1
    return all_ids[len(prompt) :]


RULES = {
    "repetition": Sampling(repetition_penalty=1.5),
    "presence": Sampling(presence_penalty=1.0),
    "frequency": Sampling(frequency_penalty=0.7),
    "bias": Sampling(logit_bias={17: 2.5, 30: -100.0}),
    "all": Sampling(repetition_penalty=1.2, presence_penalty=0.3, frequency_penalty=0.2, logit_bias={17: 1.5}),
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_penalties_and_bias_follow_a_sequence_through_its_answer_beside_others(house, rules):
    plain = house.ask(PROMPT, Sampling(), 24)
    asked = [house.ask(prompt, rules, 24) for prompt in (PROMPT, (9,))]
    assert [ids(one.tokens()) for one in asked] == [expected(prompt, 24, rules) for prompt in (PROMPT, (9,))]
    assert ids(plain.tokens()) == MODEL.greedy(PROMPT, 24) != expected(PROMPT, 24, rules)


def test_a_draw_with_everything_on_is_the_same_in_every_layout_and_company(houses):
    answers = []
    for layout in LAYOUTS:
        houses.append(House(*layout))
        mates = [houses[-1].ask((i,), SAMPLED, 9) for i in range(3)] if layout != LAYOUTS[0] else []
        answers.append(ids(houses[-1].ask(PROMPT, SAMPLED, 30).tokens()))
        assert all(mate.tokens() for mate in mates)
    assert answers == [answers[0]] * len(LAYOUTS)
    assert 9 not in answers[0]


ASKED = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.5, 1.5]),
    top_k=st.integers(0, 70),
    top_p=st.floats(0, 1),
    min_p=st.floats(0, 1),
    repetition_penalty=st.floats(0.5, 2),
    presence_penalty=st.floats(-2, 2),
    frequency_penalty=st.floats(-2, 2),
    logit_bias=st.dictionaries(st.integers(0, 60), st.floats(-100, 100), max_size=3),
    logprobs=st.none() | st.integers(0, 20),
    seed=st.integers(-(1 << 63), (1 << 63) - 1),
)
PROMPTS = st.lists(st.integers(0, 60), min_size=1, max_size=40).map(tuple)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[House, House]]:
    """A run of one stage, and one of three whose head is at the coordinator and that cuts prompts into chunks."""
    made = House(1, "last-stage"), House(3, "coordinator", max_tokens=16)
    yield made
    for house in made:
        house.close()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.tuples(PROMPTS, ASKED), min_size=1, max_size=4))
def test_whatever_is_asked_together_of_one_run_is_what_another_answers_alone(pair, asked):
    whole, cut = pair
    together = [cut.ask(prompt, sampling, 8) for prompt, sampling in asked]
    alone = [ids(whole.ask(prompt, sampling, 8).tokens()) for prompt, sampling in asked]
    assert [ids(one.tokens()) for one in together] == alone


def test_choices_of_one_seed_differ_and_each_is_repeatable(house):
    asked = [house.ask(PROMPT, SAMPLED, 20, choice) for choice in (0, 1, 2, 1)]
    first, second, third, again = (ids(one.tokens()) for one in asked)
    assert second == again
    assert len({tuple(first), tuple(second), tuple(third)}) == 3


def test_a_sequence_that_goes_through_the_stages_again_goes_on_as_if_it_had_not(houses):
    """Three sequences that grow to three pages each share five, so that some must be sent again."""
    prompts = [(i, i + 1) for i in range(3)]
    houses += [House(2, "last-stage"), House(2, "last-stage", pages=5)]
    alone = [ids(houses[0].ask(prompt, SAMPLED, 80).tokens()) for prompt in prompts]
    asked = [houses[1].ask(prompt, SAMPLED, 80) for prompt in prompts]
    assert [ids(one.tokens()) for one in asked] == alone


def test_logprobs_are_the_models_own_and_come_to_those_who_asked(house):
    asked = {n: house.ask(PROMPT, Sampling(logprobs=n), 6) for n in (None, 0, 3, 20)}
    greedy = MODEL.greedy(PROMPT, 6)
    for count, one in asked.items():
        heard = one.tokens()
        assert ids(heard) == greedy
        for i, token in enumerate(heard):
            check(token, count, MODEL.logits([*PROMPT, *greedy[:i]])[-1].log_softmax(-1))


def test_logprobs_of_a_draw_are_of_the_whole_distribution(house):
    heard = house.ask(PROMPT, attrs.evolve(SAMPLED, logprobs=2), 5).tokens()
    for i, token in enumerate(heard):
        check(token, 2, MODEL.logits([*PROMPT, *ids(heard[:i])])[-1].log_softmax(-1))


def check(token: TokenEvent, count: int | None, expected: torch.Tensor) -> None:
    if count is None:
        assert token.logprobs is None
        return
    assert token.logprobs is not None
    assert token.logprobs.own == pytest.approx(float(expected[token.id]), abs=1e-4)
    best = expected.topk(count)
    assert [id for id, _ in token.logprobs.top] == best.indices.tolist()
    assert [value for _, value in token.logprobs.top] == pytest.approx(best.values.tolist(), abs=1e-4)
