"""Log-probabilities, and how a head's answers travel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._pipeline.answers import Answer, logprobs_of, pack, unpack
from truecluster._pipeline.logprobs import Logprobs
from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams
from truecluster._pipeline.sampling import SequenceSampler
from truecluster._wire.messages import Bias


@pytest.mark.parametrize("count", [0, 1, 5, 20, 400])
def test_they_are_the_logarithms_of_a_softmax_in_fp64(count):
    logits = torch.randn(300, generator=torch.Generator().manual_seed(3)) * 6
    expected = logits.double().log_softmax(-1)
    found = logprobs_of(logits, 7, count)
    assert found.own == pytest.approx(float(expected[7]), abs=1e-5)
    top = sorted(range(300), key=lambda id: -expected[id])[:count]
    assert [id for id, _ in found.top] == top
    assert [value for _, value in found.top] == pytest.approx(expected[top].tolist(), abs=1e-5)


def test_of_equals_the_lowest_ids_come_first():
    logits = torch.tensor([0.0, 2.0, 1.0, 1.0, 2.0, 1.0])
    assert [id for id, _ in logprobs_of(logits, 0, 4).top] == [1, 4, 2, 3]


def test_they_are_the_models_own_whatever_is_asked_of_the_draw():
    """API-16: all finite, though only one token can be drawn."""
    logits = torch.tensor([1.0, 3.0, 2.0])
    params = SampleParams(
        temperature=0.1, top_k=1, top_p=0.1, logit_bias=(Bias(id=1, value=-100.0),), repetition_penalty=2.0, logprobs=3
    )
    token, told = SequenceSampler(params).sample(logits, 0)
    assert token == 2
    expected = logits.double().log_softmax(-1).tolist()
    assert told is not None
    assert told.own == pytest.approx(expected[2])
    assert told.top == (
        (1, pytest.approx(expected[1])),
        (2, pytest.approx(expected[2])),
        (0, pytest.approx(expected[0])),
    )


def test_a_row_that_is_not_finite_has_none():
    assert SequenceSampler(SampleParams(logprobs=2)).sample(torch.tensor([1.0, float("nan")]), 0) == (NOT_A_TOKEN, None)


def test_an_answer_on_its_way_is_what_the_header_describes():
    answer = Answer(ids=[4, 9, -1], logprobs=[Logprobs(-0.5, ((4, -0.5), (7, -2.0))), Logprobs(-1.0), None])
    ids, values, others = pack(answer)
    assert (ids.dtype, values.dtype, others.dtype) == (torch.int32, torch.float32, torch.int32)
    assert ids.tolist() == [4, 9, -1]
    assert values[0].tolist() == [-0.5, -0.5, -2.0]
    assert values[1][0] == -1.0
    assert values[2].isnan().all()
    assert others.tolist() == [[4, 7], [-1, -1], [-1, -1]]


def test_only_what_was_asked_for_travels():
    assert [t.tolist() for t in pack(Answer(ids=[1, 2], logprobs=[None, None]))] == [[1, 2]]
    assert [t.tolist() for t in pack(Answer(ids=[1], logprobs=[Logprobs(-0.25)]))] == [[1], [[-0.25]]]


VALUES = st.floats(-1e4, 0, width=32)
TOLD = st.builds(Logprobs, VALUES, st.lists(st.tuples(st.integers(0, 1 << 18), VALUES), max_size=20).map(tuple))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 1 << 18), st.none() | TOLD)))
def test_an_answer_comes_back_as_it_was(rows):
    answer = Answer(ids=[id for id, _ in rows], logprobs=[told for _, told in rows])
    back = unpack(pack(answer))
    assert back.ids == answer.ids
    assert (back.logprobs or [None] * len(rows)) == answer.logprobs
