from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from truecluster._engine.requests import Sampling
from truecluster._text import TextModel, TextOptions
from truecluster.api import Checkpoint, CheckpointError, Packed, RequestError, TokenizerData

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
CHAT = [{"role": "user", "content": "hi"}]


class FakeCheckpoint(Checkpoint):
    def __init__(self, data: TokenizerData, generation: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        self.generation, self.metadata = generation, metadata
        self.chat_templates = {"default": TEMPLATE}
        self._data = data

    def read(self, name: str) -> Packed:
        raise NotImplementedError

    def tokenizer(self) -> TokenizerData:
        return self._data


@pytest.fixture
def model(byte_data: TokenizerData) -> TextModel:
    return TextModel.load(FakeCheckpoint(byte_data, {}, {}), context=20, vocab=300)


@pytest.mark.parametrize(
    ("generation", "metadata", "expected"),
    [
        ({"eos_token_id": [7, 8]}, {"eos_token_id": 9}, {7, 8, 9, 258}),
        ({"eos_token_id": 7}, {}, {7, 258}),
        ({}, {"eos_token_id": None}, {258}),
    ],
)
def test_the_end_is_what_any_source_names(
    byte_data: TokenizerData, generation: Mapping[str, Any], metadata: Mapping[str, Any], expected: set[int]
) -> None:
    """TOK-05: all of them, and the turn's end in a chat."""
    model = TextModel.load(FakeCheckpoint(byte_data, generation, metadata), context=20, vocab=300)
    assert model.prepare_completion("a", TextOptions()).tokens.eos == expected
    assert model.prepare_chat(CHAT, TextOptions()).tokens.eos == expected | {257}


@pytest.mark.parametrize("value", ["</s>", [1, "2"], True, 1.5, {"a": 1}])
@pytest.mark.parametrize(("source", "named"), [(0, "generation defaults"), (1, "config")])
def test_an_end_that_is_no_id_is_named(byte_data: TokenizerData, value: Any, source: int, named: str) -> None:
    settings: list[dict[str, Any]] = [{}, {}]
    settings[source]["eos_token_id"] = value
    with pytest.raises(CheckpointError, match=f"{named}: eos_token_id must be an id or a list of ids"):
        TextModel.load(FakeCheckpoint(byte_data, *settings), context=20, vocab=300)


def test_a_request_carries_prompt_sampling_and_stops(model: TextModel) -> None:
    options = TextOptions(max_tokens=3, stop=("x",), sampling=Sampling(temperature=0.5, seed=1))
    asked = model.prepare_completion("ab", options)
    assert (asked.tokens.prompt, asked.tokens.max_tokens, asked.stop) == ((0x61, 0x62), 3, ("x",))
    assert asked.tokens.sampling == Sampling(temperature=0.5, seed=1)
    assert model.prepare_completion([1, 259], options).tokens.prompt == (1, 259)
    assert model.prepare_chat(CHAT, options).tokens.prompt == (256, *b"hi", 257)


def test_max_tokens_has_openais_defaults_and_fits_the_context(model: TextModel) -> None:
    assert model.prepare_completion("a", TextOptions()).tokens.max_tokens == 16
    assert model.prepare_completion("a" * 10, TextOptions()).tokens.max_tokens == 10
    assert model.prepare_completion("a" * 19, TextOptions(max_tokens=5)).tokens.max_tokens == 1
    assert model.prepare_completion("a", TextOptions(max_tokens=0)).tokens.max_tokens == 0
    assert model.prepare_chat(CHAT, TextOptions()).tokens.max_tokens == 16


def test_a_prompt_that_leaves_no_room_is_refused_with_the_numbers(model: TextModel) -> None:
    with pytest.raises(RequestError, match=r"context length is 20 tokens, and the prompt has 20") as refused:
        model.prepare_completion("a" * 20, TextOptions())
    assert (refused.value.param, refused.value.code) == ("prompt", "context_length_exceeded")
    with pytest.raises(RequestError, match="has 32") as refused:
        model.prepare_chat([{"role": "user", "content": "a" * 30}], TextOptions())
    assert refused.value.param == "messages"


@pytest.mark.parametrize(("prompt", "match"), [("", "empty"), ([], "empty"), ([260], "0 to 259"), ([-1], "0 to 259")])
def test_prompts_without_meaning_are_refused(model: TextModel, prompt: Any, match: str) -> None:
    with pytest.raises(RequestError, match=match):
        model.prepare_completion(prompt, TextOptions())


def test_half_a_surrogate_pair_is_refused(model: TextModel) -> None:
    with pytest.raises(RequestError, match="surrogate"):
        model.prepare_completion("\ud800", TextOptions())


@pytest.mark.parametrize("options", [{"max_tokens": -1}, {"stop": ("",)}, {"stop": ("a",) * 5}])
def test_options_name_the_field_that_is_wrong(options: Any) -> None:
    with pytest.raises(RequestError) as refused:
        TextOptions(**options)
    assert refused.value.param == next(iter(options))


def test_an_echo_with_log_probabilities_asks_for_those_of_the_prompt(model: TextModel) -> None:
    plain = model.prepare_completion([256, 0x61], TextOptions(echo=True))
    assert (plain.prefix, plain.offsets, plain.tokens.prompt_logprobs) == ("<|im_start|>a", (), False)
    scored = model.prepare_completion([256, 0x61], TextOptions(echo=True, sampling=Sampling(logprobs=0)))
    assert (scored.prefix, scored.offsets, scored.tokens.prompt_logprobs) == ("<|im_start|>a", (0, 12), True)


def test_tokens_that_the_model_has_not_are_refused_though_its_tokenizer_has_them(model: TextModel) -> None:
    """SEC-04: they would end the run, and everybody's answers."""
    small = attrs.evolve(model, vocab=0x62)
    assert small.prepare_completion("a", TextOptions()).tokens.prompt == (0x61,)
    for prompt in ("b", [0x62]):
        with pytest.raises(RequestError, match="'prompt' has token 98, but the model's are 0 to 97") as refused:
            small.prepare_completion(prompt, TextOptions())
        assert refused.value.param == "prompt"
