"""Sampling: against a plain implementation with a full sort, and by its statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from truecluster._pipeline import sampler
from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams, draw, sample, uniform
from truecluster._pipeline.truncation import truncated


def logits(size: int, seed: int = 0, scale: float = 3.0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * scale


def test_greedy_takes_the_likeliest_and_of_equals_the_lowest_id():
    assert sample(torch.tensor([0.0, 2.0, 1.0, 2.0, -1.0]), SampleParams(), 0) == 1
    assert sample(torch.zeros(1000), SampleParams(), 0) == 0


@pytest.mark.parametrize("temperature", [1e-4, 1e-5, 9e-6, 1e-8, 1e-40, 5e-324])
def test_tiny_temperatures_are_greedy_not_an_overflow(temperature):
    """SAMP-01; logits as large as fp16 has them."""
    row = logits(500, scale=1e4)
    params = SampleParams(temperature=temperature, seed=3)
    assert sample(row, params, 7) == int(np.argmax(row.numpy()))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_gives_no_token(bad, temperature):
    row = logits(100)
    row[50] = bad
    assert sample(row, SampleParams(temperature=temperature), 0) == NOT_A_TOKEN
    assert sample(torch.full((100,), bad), SampleParams(temperature=temperature), 0) == NOT_A_TOKEN


@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), float("inf"), float("-inf")])
def test_one_bad_logit_is_noticed_wherever_it_is(bad):
    """Vector instructions look at several at a time, threads at a share each."""
    for size in (1, 7, 100, 70_001):
        for at in {0, 1, size // 3, size // 2, size - 2, size - 1} & set(range(size)):
            row = logits(size)
            row[at] = bad
            assert sample(row, SampleParams(), 0) == NOT_A_TOKEN, (size, at)


def nucleus(likely: np.ndarray, top_p: float) -> set[int]:
    """Sort everything, likeliest first and of equals the lowest id; keep until the mass is reached."""
    kept, mass = set(), 0.0
    for id in sorted(range(len(likely)), key=lambda i: (-likely[i], i)):
        kept.add(id)
        mass += float(likely[id])
        if mass >= top_p:
            break
    return kept


@pytest.mark.parametrize("size", [1, 2, 5, 300, 2000])
@pytest.mark.parametrize("top_p", [0.0, 1e-6, 0.3, 0.5, 0.9, 0.99, 0.999999])
def test_the_nucleus_is_that_of_a_full_sort(size, top_p):
    for seed in range(4):
        likely = logits(size, seed).softmax(-1)
        kept = truncated(likely, 0, top_p, 0)
        ids = nucleus(likely.numpy(), top_p)
        assert set(kept.nonzero().flatten().tolist()) == ids
        assert torch.equal(kept[sorted(ids)], likely[sorted(ids)])


@pytest.mark.parametrize("top_p", [0.1, 0.33, 0.5, 0.75, 0.95])
def test_ties_in_the_nucleus_go_to_the_lowest_ids(top_p):
    """Few distinct values, so that the border nearly always runs through equals."""
    for seed in range(6):
        values = torch.randint(1, 5, (700,), generator=torch.Generator().manual_seed(seed)).float()
        likely = values.double().div(float(values.sum())).float()
        assert set(truncated(likely, 0, top_p, 0).nonzero().flatten().tolist()) == nucleus(likely.numpy(), top_p)


def test_a_flat_distribution_needs_more_than_the_shortlist():
    kept = truncated(torch.full((4096,), 1 / 4096), 0, 0.5, 0)
    assert kept.nonzero().flatten().tolist() == list(range(2048))


def test_drawing_inverts_the_distribution_in_id_order():
    kept = torch.tensor([0.0, 0.2, 0.0, 0.3, 0.1])  # sums to 0.6: borders at 1/3 and 5/6
    drawn = {u: draw(kept, u) for u in (0.0, 0.333, 0.334, 0.833, 0.834, 0.9999999, 1.0)}
    assert list(drawn.values()) == [1, 1, 3, 3, 4, 4, 4]


def test_a_token_depends_on_its_key_alone():
    row, params = logits(400, scale=1.0), SampleParams(temperature=1.0, seed=11, choice=2)
    alone = [sample(row, params, position) for position in range(20)]
    for mate in range(5):
        sample(logits(400, mate), SampleParams(temperature=2.0, seed=mate), 0)
    torch.manual_seed(0)
    assert [sample(row.clone(), params, position) for position in reversed(range(20))] == alone[::-1]
    assert len(set(alone)) > 5


@pytest.mark.parametrize("other", [{"seed": 12}, {"choice": 3}, {"seed": -(1 << 63)}, {"seed": (1 << 63) - 1}])
def test_another_key_is_another_draw(other):
    row, base = logits(400, scale=1.0), {"temperature": 1.0, "seed": 11, "choice": 2}
    first, second = ([sample(row, SampleParams(**p), i) for i in range(30)] for p in (base, {**base, **other}))
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 15


def test_numbers_are_uniform():
    numbers = np.array([uniform(seed, choice, i) for seed in range(5) for choice in range(2) for i in range(400)])
    counts, _ = np.histogram(numbers, 20, (0, 1))
    assert ((counts - 200) ** 2 / 200).sum() < 43.8  # chi-square of 19 degrees at 0.001
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.05


def test_no_number_is_1(monkeypatch):
    class Ones:
        def digest(self):
            return b"\xff" * 8

    monkeypatch.setattr(sampler.hashlib, "blake2b", lambda key, digest_size: Ones())
    assert uniform(0, 0, 0) < 1


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.3, 0.8)])
def test_samples_have_the_distribution_they_should(temperature, top_p):
    row = logits(12, seed=4, scale=1.0)
    wanted = np.exp(row.double().numpy() / temperature)
    wanted /= wanted.sum()
    kept = sorted(nucleus(wanted, top_p)) if top_p < 1 else list(range(12))
    wanted = np.array([wanted[i] if i in kept else 0 for i in range(12)])
    wanted /= wanted.sum()
    params = SampleParams(temperature=temperature, top_p=top_p, seed=5)
    counts = np.bincount([sample(row, params, i) for i in range(3000)], minlength=12)
    assert counts[wanted == 0].sum() == 0
    expected = wanted[kept] * 3000
    critical = {12: 31.3, 9: 26.1, 8: 24.3, 7: 22.5, 6: 20.5}[len(kept)]  # chi-square at 0.001
    assert ((counts[kept] - expected) ** 2 / expected).sum() < critical
