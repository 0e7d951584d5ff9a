"""What may be drawn, and how often, against transformers' own processors in its own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from truecluster._pipeline import sampler
from truecluster._pipeline.penalties import History, from_bits, to_bits
from truecluster._pipeline.sampler import SampleParams, sample
from truecluster._wire.messages import Bias

PROMPT, ANSWER = [3, 17, 17, 40, 3], [8, 8, 17, 90, 8]
HISTORY = History(from_bits(to_bits(PROMPT)), ANSWER)

RULES = {
    "nothing": {},
    "temperature": {"temperature": 0.6},
    "top-k": {"top_k": 7},
    "top-k beyond the vocabulary": {"top_k": 10**9},
    "top-p": {"top_p": 0.8},
    "top-p of little": {"top_p": 1e-6},
    "min-p": {"min_p": 0.05},
    "min-p of all": {"min_p": 1.0},
    "repetition": {"repetition_penalty": 1.3},
    "encouraged repetition": {"repetition_penalty": 0.7},
    "bias": {"logit_bias": {8: -100.0, 3: 2.5, 120: 100.0}},
    "a ban": {"logit_bias": {8: -100.0, 17: -100.0}},
    "top-k, top-p": {"top_k": 12, "top_p": 0.7},
    "hot, all": {"temperature": 1.7, "top_k": 40, "top_p": 0.9, "min_p": 0.1},
    "cold, all": {
        "temperature": 0.5,
        "top_k": 30,
        "top_p": 0.95,
        "min_p": 0.02,
        "repetition_penalty": 1.2,
        "logit_bias": {8: 3.0, 40: -1.0},
    },
}


def row(size: int, seed: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * 2


def params_of(rules: dict, **more) -> SampleParams:
    bias = tuple(Bias(id=id, value=value) for id, value in rules.get("logit_bias", {}).items())
    return SampleParams(**{"temperature": 1.0, **rules, "logit_bias": bias, **more})


def oracle(rules: dict, prompt: Sequence[int] = PROMPT, answer: Sequence[int] = ANSWER) -> LogitsProcessorList:
    """In the order of `GenerationMixin._get_logits_processor`."""
    made = {
        "logit_bias": lambda bias: SequenceBiasLogitsProcessor({(id,): value for id, value in bias.items()}),
        "repetition_penalty": RepetitionPenaltyLogitsProcessor,
        "temperature": TemperatureLogitsWarper,
        "top_k": TopKLogitsWarper,
        "top_p": TopPLogitsWarper,
        "min_p": MinPLogitsWarper,
    }
    return LogitsProcessorList([make(rules[name]) for name, make in made.items() if name in rules])


def wanted(logits: torch.Tensor, rules: dict) -> np.ndarray:
    """``[vocab]`` fp64, the distribution that transformers draws from."""
    scores = oracle(rules)(torch.tensor([PROMPT + ANSWER]), logits[None].clone())[0]
    return scores.double().softmax(-1).numpy()


@pytest.mark.parametrize("size", [130, 3000])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_every_share_of_the_unit_interval_gives_the_token_that_transformers_would(rules, size, monkeypatch):
    """Tokens have their intervals in the order of ids, each as wide as it is likely: 0.1 % off either end and amid."""
    for seed in range(2):
        logits = row(size, seed)
        likely = wanted(logits, rules)
        ends = likely.cumsum()
        for id in np.flatnonzero(likely > 2e-3):
            for share in (0.001, 0.5, 0.999):
                monkeypatch.setattr(sampler, "uniform", lambda *key, u=ends[id] - likely[id] * share: u)
                assert sample(logits, params_of(rules), 0, HISTORY) == id
        monkeypatch.undo()


def critical(freedom: int) -> float:
    """Chi-square that is exceeded once in a thousand (Wilson and Hilferty 1931)."""
    return freedom * (1 - 2 / (9 * freedom) + 3.0902 * (2 / (9 * freedom)) ** 0.5) ** 3


@pytest.mark.parametrize("vary", ["seed", "choice", "position"])
@pytest.mark.parametrize("rules", ["top-k", "min-p", "hot, all", "cold, all"])
def test_samples_have_transformers_distribution_whichever_part_of_the_key_changes(rules, vary):
    logits, draws = row(130, 5), 2000
    likely = wanted(logits, RULES[rules])
    keys = [{"seed": 1, "choice": 2, "position": 3, vary: i} for i in range(draws)]
    found = [
        sample(logits, params_of(RULES[rules], seed=k["seed"], choice=k["choice"]), k["position"], HISTORY)
        for k in keys
    ]
    counts = np.bincount(found, minlength=130)
    assert counts[likely == 0].sum() == 0
    often = likely * draws >= 5
    expected, seen = likely[often] * draws, counts[often]
    if not often.all():  # the rare ones together
        expected, seen = np.append(expected, draws - expected.sum()), np.append(seen, draws - seen.sum())
    expected, seen = expected[expected > 1e-9], seen[expected > 1e-9]
    assert ((seen - expected) ** 2 / expected).sum() < critical(len(expected) - 1)


@pytest.mark.parametrize("rules", ["repetition", "encouraged repetition", "bias", "a ban"])
def test_greedy_is_the_likeliest_after_bias_and_penalties(rules):
    for seed in range(20):
        logits = row(130, seed)
        assert (
            sample(logits, params_of(RULES[rules], temperature=0.0), 0, HISTORY)
            == wanted(logits, RULES[rules]).argmax()
        )
