"""Masks: a bit for each token that may come, and how the head hears of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._pipeline.answers import logprobs_of
from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams, sample
from truecluster._pipeline.sampling import SampleTable, SampleUpdate
from truecluster._wire.codec import decode, encode
from truecluster._wire.messages import Bias
from truecluster.api import EdgeTimeout

LOGITS = torch.tensor([0.0, 3.0, 1.0, 2.0, -5.0, 2.5, 0.5, 1.5, 9.0])


def bits(*ids: int) -> bytes:
    return sum(1 << id for id in ids).to_bytes(2, "little")


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (bits(*range(9)), 8),
        (bits(1, 3), 1),
        (bits(4), 4),
        (bits(0, 3, 7), 3),
        (bits(*range(8))[:1], 1),  # id 8 is beyond its end
        (bits(5, 15), 5),  # id 15 is beyond the logits
        (b"", NOT_A_TOKEN),
        (bits(15), NOT_A_TOKEN),
    ],
)
@pytest.mark.parametrize("params", [{}, {"top_k": 1}, {"top_p": 0.001}], ids=str)
def test_the_likeliest_that_may_come(mask, expected, params):
    drawn = SampleParams(**params, temperature=1.0 if params else 0.0)
    assert sample(LOGITS, drawn, 5, mask=mask) == expected


@settings(deadline=None)
@given(
    allowed=st.sets(st.integers(0, 8), min_size=1),
    params=st.fixed_dictionaries(
        {
            "temperature": st.sampled_from([0.0, 0.3, 1.0, 100.0]),
            "top_k": st.sampled_from([0, 1, 4]),
            "top_p": st.sampled_from([1.0, 0.5, 0.01]),
            "min_p": st.sampled_from([0.0, 0.5]),
            "repetition_penalty": st.sampled_from([1.0, 1.5]),
            "seed": st.integers(0, 99),
        }
    ),
)
def test_only_what_may_come_comes_as_if_there_were_no_other(allowed, params):
    """The others' likelihood is 0 before anything is drawn: that of the same logits, where they are very low."""
    chosen = SampleParams(**params)
    token = sample(LOGITS, chosen, 3, mask=bits(*allowed))
    assert token in allowed
    low = torch.where(torch.tensor([id in allowed for id in range(9)]), LOGITS, -1e30)
    assert token == sample(low, chosen, 3)


def test_bias_and_penalties_come_before_the_mask_and_forbid_nothing():
    params = SampleParams(logit_bias=(Bias(id=1, value=-100.0), Bias(id=8, value=100.0)))
    assert sample(LOGITS, params, 0, mask=bits(1, 4)) == 4
    assert sample(LOGITS, params, 0, mask=bits(1)) == 1


def test_logits_that_are_not_finite_give_no_token_though_they_may_not_come():
    bad = LOGITS.clone()
    bad[8] = torch.nan
    assert sample(bad, SampleParams(), 0, mask=bits(1)) == NOT_A_TOKEN


def test_log_probabilities_are_those_of_the_model():
    table = SampleTable(1.0)
    table.apply(SampleUpdate(number=1, sequence=1, params=SampleParams(logprobs=2), mask=bits(4)))
    assert table.of(1, 1).sample(LOGITS, 0) == (4, logprobs_of(LOGITS, 4, 2))


def test_a_mask_changes_nothing_else():
    """The sequence's own tokens are still counted, and only what its first update had of them."""
    table = SampleTable(1.0)
    params = SampleParams(presence_penalty=2.0)
    table.apply(SampleUpdate(number=1, sequence=1, params=params, answer=(8,)))
    drawn = []
    for number in range(2, 5):
        table.apply(SampleUpdate(number=number, sequence=1, params=params, mask=bits(1, 5, 7, 8)))
        drawn.append(table.of(1, number).sample(LOGITS, number)[0])
    # from 3, 2.5, 1.5, 7; 3, 2.5, 1.5, 7 as presence counts once; the same
    assert drawn == [8, 8, 8]
    table.apply(SampleUpdate(number=5, sequence=1, params=params, mask=bits(1, 5, 7)))
    assert [table.of(1, 5).sample(LOGITS, position)[0] for position in range(4)] == [1, 5, 7, 1]


def test_a_row_waits_for_its_own_sequence_alone():
    """Another sequence's later update says nothing of this one's."""
    table = SampleTable(0.05)
    for number, sequence in ((1, 1), (3, 2)):
        table.apply(SampleUpdate(number=number, sequence=sequence, params=SampleParams()))
    assert table.of(2, 3).number == 3
    with pytest.raises(EdgeTimeout, match="update 2"):
        table.of(1, 2)


def test_a_row_waits_until_its_mask_is_there():
    table = SampleTable(30.0)
    table.apply(SampleUpdate(number=1, sequence=1, params=SampleParams()))
    waits = threading.Event()

    def head() -> int:
        waits.set()
        return table.of(1, 2).sample(LOGITS, 0)[0]

    with ThreadPoolExecutor(1) as pool:
        token = pool.submit(head)
        assert waits.wait(30)
        table.apply(SampleUpdate(number=2, sequence=1, params=SampleParams(), mask=bits(3)))
        assert token.result(30) == 3


@pytest.mark.parametrize("mask", [None, b"", b"\x00\xff", b"\x81" * (1 << 17)], ids=lambda mask: str(mask)[:12])
def test_a_mask_travels(mask):
    update = SampleUpdate(number=1, sequence=2, params=SampleParams(), mask=mask)
    _, message = decode(encode(update.message(run=1), 1))
    assert SampleUpdate.received(message) == update
