"""Generation defaults as models on the hub state them."""

from __future__ import annotations

from typing import Any

import pytest

from truecluster._text import GenerationDefaults
from truecluster.api import CheckpointError

QWEN = {"do_sample": True, "repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
LLAMA = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0", "max_length": 4096}


def defaults(temperature: float, top_p: float, *ignored: str) -> GenerationDefaults:
    return GenerationDefaults(temperature=temperature, top_p=top_p, ignored=ignored)


def test_an_author_who_samples() -> None:
    assert GenerationDefaults.of(QWEN) == defaults(0.7, 0.8, "top_k", "repetition_penalty")
    assert GenerationDefaults.of(LLAMA) == defaults(0.6, 0.9)
    assert GenerationDefaults.of({"do_sample": True}) == defaults(1.0, 1.0)


def test_without_do_sample_it_is_greedy_as_in_transformers() -> None:
    assert GenerationDefaults.of({}) == defaults(0.0, 1.0)
    assert GenerationDefaults.of({**LLAMA, "do_sample": False}) == defaults(0.0, 1.0)
    assert GenerationDefaults.of({"temperature": None, "top_k": 0, "repetition_penalty": 1.0}) == defaults(0.0, 1.0)


@pytest.mark.parametrize("value", ["hot", True, -1, float("nan"), float("inf"), [1]])
@pytest.mark.parametrize("name", ["temperature", "top_p"])
def test_a_number_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(CheckpointError, match=f"generation defaults: {name} must be from 0 to"):
        GenerationDefaults.of({name: value})
