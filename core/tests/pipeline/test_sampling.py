"""What a head is told of a sequence, on its way and once it is there."""

from __future__ import annotations

import math

import attrs
import pytest
import torch

from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams
from truecluster._pipeline.sampling import SampleTable, SampleUpdate, SequenceSampler
from truecluster._wire.codec import decode, encode
from truecluster._wire.messages import Bias, Sample
from truecluster.api import EdgeBroken

EVERYTHING = SampleParams(
    temperature=0.5,
    top_k=3,
    top_p=0.25,
    min_p=0.125,
    repetition_penalty=1.5,
    presence_penalty=-0.5,
    frequency_penalty=2.0,
    logit_bias=(Bias(id=7, value=-100.0), Bias(id=1, value=0.5)),
    logprobs=20,
    seed=-(1 << 63),
    choice=2,
)
PENALTIES = [{"repetition_penalty": 5.0}, {"presence_penalty": 1.5}, {"frequency_penalty": 1.5}]


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 12, generator=torch.Generator().manual_seed(4)) * 0.5


def test_every_field_has_its_place_in_the_message_and_comes_out_of_it():
    update = SampleUpdate.of(4, 9, EVERYTHING, prompt=[3, 1, 3], answer=[8, 8], given=(3, 1, 3))
    _, message = decode(encode(update.message(run=6), 1))
    assert isinstance(message, Sample)
    assert SampleUpdate.received(message) == update
    assert (message.run, message.number, message.sequence) == (6, 4, 9)
    assert (message.prompt, message.answer, message.given) == (bytes([0b1010]), (8, 8), (3, 1, 3))
    for field in attrs.fields(SampleParams):
        assert getattr(message, field.name) == getattr(EVERYTHING, field.name) != field.default


@pytest.mark.parametrize(
    ("params", "prompt", "answer"),
    [
        ({"temperature": 1.0, "top_k": 3, "logit_bias": (Bias(id=1, value=1.0),)}, b"", ()),
        ({"presence_penalty": 0.1}, b"", (5,)),
        ({"frequency_penalty": -0.1}, b"", (5,)),
        ({"repetition_penalty": 1.1}, bytes([0b100]), (5,)),
    ],
)
def test_tokens_go_only_where_a_penalty_needs_them(params, prompt, answer):
    update = SampleUpdate.of(1, 1, SampleParams(**params), prompt=[2], answer=[5])
    assert (update.prompt, update.answer) == (prompt, answer)


@pytest.mark.parametrize(
    "changes",
    [
        {"top_k": -1},
        {"min_p": 1.1},
        {"repetition_penalty": 0.0},
        {"logit_bias": (Bias(id=1, value=0.0),) * 4097},
        {"logprobs": 21},
        {"logprobs": -1},
        {"prompt": b"\0" * ((1 << 17) + 1)},
        {"mask": b"\0" * ((1 << 17) + 1)},
        {"answer": (-1,)},
        {"answer": (0,) * ((1 << 17) + 1)},
        {"given": (-1,)},
        {"given": (0,) * ((1 << 17) + 1)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_message_that_claims_too_much_is_refused(changes):
    """As it comes in: the sender's side is told apart by building it without its checks."""
    sound = Sample(run=1, number=1, sequence=1, temperature=1.0, top_p=1.0, seed=0, choice=0)
    with attrs.validators.disabled():
        data = encode(attrs.evolve(sound, **changes), 1)
    with pytest.raises(EdgeBroken, match=next(iter(changes))):
        decode(data)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_head_that_is_told_of_an_answer_goes_on_as_the_one_that_gave_it(penalty, temperature):
    """So a sequence can go through other stages from its tokens."""
    params, logits = SampleParams(temperature=temperature, seed=8, **penalty), rows(30)
    first = SequenceSampler(params, bytes([0b110]))
    whole = [first.sample(logits[i], i)[0] for i in range(30)]
    again = SequenceSampler(params, bytes([0b110]), whole[:11])
    assert [again.sample(logits[i], i)[0] for i in range(11, 30)] == whole[11:]
    without = SequenceSampler(params, bytes([0b110]))
    assert [without.sample(logits[i], i)[0] for i in range(11, 30)] != whole[11:]


def test_a_frequency_penalty_takes_turns_by_hand():
    """Logits 1.0, 0.7 and 0: each draw takes 0.5 from what it drew; of equals the lowest id."""
    sampler = SequenceSampler(SampleParams(frequency_penalty=0.5))
    drawn = [sampler.sample(torch.tensor([1.0, 0.7, 0.0]), i)[0] for i in range(6)]
    assert drawn == [0, 1, 0, 1, 0, 2]  # from 1, .7, 0; .5, .7, 0; .5, .2, 0; 0, .2, 0; 0, -.3, 0; -.5, -.3, 0


def test_a_row_that_gave_no_token_is_not_counted():
    sampler = SequenceSampler(SampleParams(presence_penalty=2.0))
    bad, good = torch.tensor([1.0, float("nan"), 0.5]), torch.tensor([1.0, 0.0, 1.5])
    assert [sampler.sample(row, i)[0] for i, row in enumerate((bad, good, good))] == [NOT_A_TOKEN, 2, 0]


def test_given_tokens_are_taken_as_they_are_and_count_for_no_penalty():
    """Their log-probabilities by hand: of two equal logits each is a half."""
    sampler = SequenceSampler(SampleParams(presence_penalty=1.0, logprobs=1), given=(9, 1, 0))
    logits = torch.tensor([0.5, 0.5])
    taken = [sampler.sample(logits, position) for position in (1, 2, 3, 4)]
    assert [token for token, _ in taken] == [1, 0, 0, 1], "the first of equals, then the one without a penalty"
    assert all(told.own == pytest.approx(math.log(0.5)) for _, told in taken)


@pytest.mark.parametrize("logits", [[1.0, float("nan")], [float("inf"), 1.0], [1.0]], ids=str)
def test_a_given_token_that_the_logits_say_nothing_of_is_none(logits):
    assert SequenceSampler(SampleParams(logprobs=0), given=(1,)).sample(torch.tensor(logits), 0) == (NOT_A_TOKEN, None)


def test_ids_beyond_the_vocabulary_change_nothing():
    """SEC-04: whatever a message names, the row is sampled as if it didn't."""
    biases = tuple(Bias(id=id, value=100.0) for id in (3, 1 << 20, (1 << 31) - 1))
    params = SampleParams(repetition_penalty=2.0, presence_penalty=1.0, logit_bias=(Bias(id=1, value=0.5), *biases))
    sampler = SequenceSampler(params, bytes([0xF8, 0xFF]), answer=[3, 1 << 20])
    assert sampler.sample(torch.tensor([0.2, 0.1, 0.3]), 0)[0] == 1
    assert sampler.sample(torch.tensor([0.2, 0.1, 0.3]), 1)[0] == 2, "0.1 and its bias, halved, less 1"


def test_sequences_do_not_share_what_they_have_said():
    table = SampleTable(1.0)
    params = SampleParams(presence_penalty=2.0)
    for number in (1, 2):
        table.apply(SampleUpdate(number=number, sequence=number, params=params))
    logits = torch.tensor([1.0, 0.5])
    assert [table.of(1, 1).sample(logits, i)[0] for i in range(2)] == [0, 1]
    assert table.of(2, 2).sample(logits, 0)[0] == 0
    table.forget(1)
    table.apply(SampleUpdate(number=3, sequence=1, params=params))
    assert table.of(1, 3).sample(logits, 0)[0] == 0
