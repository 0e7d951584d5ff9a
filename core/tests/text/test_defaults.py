"""Generation defaults as models on the hub state them."""

from __future__ import annotations

from typing import Any

import pytest

from truecluster._engine.requests import Sampling
from truecluster._text import GenerationDefaults
from truecluster.api import CheckpointError

QWEN = {"do_sample": True, "repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
LLAMA = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0", "max_length": 4096}


def defaults(*ignored: str, **sampling: Any) -> GenerationDefaults:
    return GenerationDefaults(sampling=Sampling(**sampling), ignored=ignored)


def test_an_author_who_samples() -> None:
    assert GenerationDefaults.of(QWEN) == defaults(temperature=0.7, top_p=0.8, top_k=20, repetition_penalty=1.1)
    assert GenerationDefaults.of(LLAMA) == defaults(temperature=0.6, top_p=0.9)
    assert GenerationDefaults.of({"do_sample": True}) == defaults(temperature=1.0)
    assert GenerationDefaults.of({"do_sample": True, "min_p": 0.1}) == defaults(temperature=1.0, min_p=0.1)


def test_without_do_sample_it_is_greedy_as_in_transformers() -> None:
    assert GenerationDefaults.of({}) == defaults()
    assert GenerationDefaults.of({**LLAMA, "do_sample": False}) == defaults()
    assert GenerationDefaults.of({**QWEN, "do_sample": False}) == defaults(repetition_penalty=1.1)
    assert GenerationDefaults.of({"temperature": None, "top_k": 0, "repetition_penalty": 1.0}) == defaults()


def test_what_is_not_honoured_is_named() -> None:
    generation = {"num_beams": 4, "typical_p": 0.9, "no_repeat_ngram_size": 0, "bad_words_ids": None}
    assert GenerationDefaults.of(generation) == defaults("typical_p", "num_beams")


@pytest.mark.parametrize("value", ["hot", True, -1, float("nan"), float("inf"), [1]])
@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "min_p", "repetition_penalty"])
def test_a_number_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(CheckpointError, match=f"generation defaults: {name} must be (a whole number )?from "):
        GenerationDefaults.of({name: value})


def test_a_count_is_whole() -> None:
    with pytest.raises(CheckpointError, match=r"top_k must be a whole number from 0 to 2147483647, not 20\.5"):
        GenerationDefaults.of({"top_k": 20.5})
