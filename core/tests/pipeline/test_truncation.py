"""Top-k, top-p and min-p in exact fractions, with equals at every border."""

from __future__ import annotations

from fractions import Fraction

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from truecluster._pipeline.truncation import truncated

SHARES = st.integers(0, 1000).map(lambda thousandths: Fraction(thousandths, 1000))
NEAR = Fraction(1, 10**5)
"""What lies nearer to a border may fall to either side by rounding."""


def kept_exactly(weights: list[int], top_k: int, top_p: Fraction, min_p: Fraction) -> list[int]:
    """The rules as they are written: rank by likelihood and lowest id, cut, scale up, cut, cut."""
    ranked = sorted(range(len(weights)), key=lambda id: (-weights[id], id))[: top_k or None]
    whole, mass, nucleus = sum(weights[id] for id in ranked), Fraction(0), []
    for id in ranked:
        if nucleus and top_p < 1:
            assume(abs(mass - top_p) > NEAR)
            if mass >= top_p:
                break
        nucleus.append(id)
        mass += Fraction(weights[id], whole)
    best = weights[ranked[0]]
    assume(all(weights[id] == min_p * best or abs(weights[id] - min_p * best) > NEAR * best for id in nucleus))
    assume(min_p == 1 or all(weights[id] != min_p * best for id in nucleus))
    return sorted(id for id in nucleus if weights[id] >= min_p * best)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=40), st.integers(0, 45), SHARES, SHARES)
def test_the_kept_tokens_are_those_of_exact_arithmetic(weights, top_k, top_p, min_p):
    expected = kept_exactly(weights, top_k, top_p, min_p)
    likely = torch.tensor(weights).double().div(sum(weights)).float()
    kept = truncated(likely, top_k, float(top_p), float(min_p))
    assert kept.nonzero().flatten().tolist() == expected
    assert torch.equal(kept[expected], likely[expected])


def test_more_than_the_shortlist_may_be_kept_and_dropped():
    likely = torch.arange(1, 2001).double().flip(0).div(2001000).float()  # 2000 ... 1 of 2001000
    assert truncated(likely, 700, 1.0, 0.0).nonzero().flatten().tolist() == list(range(700))
    assert truncated(likely, 0, 0.5, 0.0).count_nonzero() == 586  # 2000 + ... + 1415 = 1000595 >= 1000500 > 999180
    assert truncated(likely, 0, 1.0, 0.2501).nonzero().flatten().tolist() == list(range(1500))  # 501 ... of 2000
