"""How likely prompts are, and what of them the cluster has already, of a cluster of real nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

LONG = ("Tell me about the sea, please. " * 7)[:200]


def ask(official: openai.OpenAI, **body: Any) -> Any:
    return official.completions.create(**{"model": "tiny", "prompt": LONG, "temperature": 0, "max_tokens": 6, **body})


@pytest.fixture(scope="module")
def logprobs(tiny: Path) -> Any:
    """``logprobs(ids)``: of every token that could follow each of them, by transformers."""
    import torch
    from transformers import Qwen2ForCausalLM

    network = Qwen2ForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    return lambda ids: network(torch.tensor([ids])).logits[0].detach().log_softmax(-1)


def check(choice: Any, text: str, expected: Any) -> None:
    """The tokenizer's tokens are bytes: each begins where its letter does."""
    told = choice.logprobs
    assert told.tokens == [*text]
    assert told.text_offset == [*range(len(text))]
    assert (told.token_logprobs[0], told.top_logprobs[0]) == (None, None)
    for place, letter in enumerate(text[1:]):
        assert told.token_logprobs[place + 1] == pytest.approx(float(expected[place, ord(letter)]), abs=0.01)
        best = expected[place].topk(2).values.tolist()
        assert sorted(told.top_logprobs[place + 1].values())[-2:] == pytest.approx(best[::-1], abs=0.01)


def test_an_echo_tells_how_likely_prompt_and_answer_are(official: openai.OpenAI, logprobs: Any) -> None:
    """API-15: in several chunks, and the answer is the one that comes without."""
    plain = ask(official).choices[0].text
    choice = ask(official, echo=True, logprobs=2).choices[0]
    assert choice.text == LONG + plain
    check(choice, choice.text, logprobs([*choice.text.encode()]))


def test_prompts_are_scored_as_measuring_tools_ask(official: openai.OpenAI, logprobs: Any) -> None:
    """Lists of token ids beside each other, and an answer of no or one token."""
    texts = ["Hello", LONG, "x"]
    for count in (0, 1):
        answer = ask(official, prompt=[[*text.encode()] for text in texts], echo=True, logprobs=2, max_tokens=count)
        assert answer.usage.completion_tokens == count * len(texts)
        for text, choice in zip(texts, answer.choices, strict=True):
            assert choice.finish_reason == "length"
            assert (choice.text[: len(text)], len(choice.text)) == (text, len(text) + count)
            check(choice, choice.text, logprobs([*choice.text.encode()]))


def test_a_streamed_echo_has_the_same(official: openai.OpenAI) -> None:
    body: dict[str, Any] = {"echo": True, "logprobs": 1, "prompt": ["Hello", "What is it?"]}
    whole = ask(official, **body).choices
    found: list[dict[str, Any]] = [{"text": "", "token_logprobs": [], "text_offset": []} for _ in whole]
    for chunk in ask(official, **body, stream=True):
        for choice in chunk.choices:
            found[choice.index]["text"] += choice.text
            for name in ("token_logprobs", "text_offset"):
                found[choice.index][name] += getattr(choice.logprobs, name) if choice.logprobs else []
    for one, joined in zip(whole, found, strict=True):
        assert (one.text, one.logprobs.text_offset) == (joined["text"], joined["text_offset"])
        assert joined["token_logprobs"] == pytest.approx(one.logprobs.token_logprobs)


def test_tokens_that_the_cluster_has_already_are_told(official: openai.OpenAI) -> None:
    """A page is 32 tokens, and here a token is a letter."""
    prompt = "Once upon a time there was a page" + "." * 70
    cached = []
    for text in (prompt, prompt, prompt[:64] + "!"):
        answer = ask(official, prompt=text, max_tokens=1)
        cached.append(answer.usage.prompt_tokens_details.cached_tokens)
    assert cached == [0, 96, 64]
    *_, last = ask(official, prompt=prompt, stream=True, stream_options={"include_usage": True})
    assert last.usage.prompt_tokens_details.cached_tokens == 96
