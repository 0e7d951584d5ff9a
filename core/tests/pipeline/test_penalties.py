"""Presence and frequency penalty by OpenAI's formula, bias by its definition, and the sets of tokens that are sent."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._pipeline.penalties import History, adjusted, from_bits, to_bits
from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams, sample
from truecluster._wire.messages import Bias

LOGITS = [1.0, -1.0, 2.0, 0.5, -3.0, 0.0]


def after(params: SampleParams, prompt=(), answer=()) -> list[float]:
    history = History(from_bits(to_bits(prompt)), list(answer))
    return adjusted(torch.tensor(LOGITS), params, history).tolist()


def test_presence_and_frequency_by_hand():
    """mu[j] -> mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence; c[j] is how often j was sampled."""
    params = SampleParams(presence_penalty=0.5, frequency_penalty=0.25)
    assert after(params, prompt=[0, 3], answer=[2, 1, 2, 2, 4]) == [1.0, -1.75, 0.75, 0.5, -3.75, 0.0]


def test_negative_penalties_encourage():
    assert after(SampleParams(frequency_penalty=-2.0), answer=[4, 4]) == [1.0, -1.0, 2.0, 0.5, 1.0, 0.0]


def test_repetition_divides_what_is_positive_and_multiplies_what_is_not_once_each_in_prompt_and_answer():
    params = SampleParams(repetition_penalty=2.0)
    assert after(params, prompt=[0, 1, 1, 0], answer=[1, 2, 5]) == [0.5, -2.0, 1.0, 0.5, -3.0, 0.0]


def test_bias_comes_first_then_repetition_then_what_is_taken_away():
    params = SampleParams(
        logit_bias=(Bias(id=0, value=3.0), Bias(id=5, value=-1.0)), repetition_penalty=2.0, presence_penalty=1.0
    )
    assert after(params, prompt=[0], answer=[5]) == [2.0, -1.0, 2.0, 0.5, -3.0, -3.0]


def test_the_logits_that_came_stay_as_they_were():
    logits = torch.tensor(LOGITS)
    sample(logits, SampleParams(presence_penalty=2.0, logit_bias=(Bias(id=0, value=9.0),)), 0, History(answer=[2]))
    assert logits.tolist() == LOGITS


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_bias_of_100_forces_and_one_of_minus_100_bans(temperature):
    forced = SampleParams(temperature=temperature, logit_bias=(Bias(id=4, value=100.0),))
    banned = SampleParams(temperature=temperature, logit_bias=(Bias(id=2, value=-100.0),))
    assert {sample(torch.tensor(LOGITS), forced, i) for i in range(50)} == {4}
    assert 2 not in {sample(torch.tensor(LOGITS), banned, i) for i in range(50)}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_neither_bias_nor_penalty_makes_a_row_finite(bad):
    logits = torch.tensor([bad, *LOGITS])
    params = SampleParams(logit_bias=(Bias(id=0, value=-100.0),), repetition_penalty=2.0, presence_penalty=2.0)
    assert sample(logits, params, 0, History(answer=[0])) == NOT_A_TOKEN


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 3000)))
def test_a_set_of_tokens_comes_back_as_it_was(ids):
    bits = to_bits(sorted(ids))
    assert from_bits(bits).tolist() == sorted(ids)
    assert len(bits) == (max(ids) // 8 + 1 if ids else 0)


def test_bits_are_counted_from_the_least_significant():
    assert to_bits([0, 9, 9, 15]) == bytes([0b00000001, 0b10000010])
