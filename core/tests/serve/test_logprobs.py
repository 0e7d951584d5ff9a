"""Log-probabilities in OpenAI's two shapes, whole and streamed."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import openai
import pytest
from openai_shapes import counted, validate, validate_completion_chunk

from truecluster._engine.requests import FinishedEvent, PromptEvent, TokenEvent
from truecluster._pipeline.logprobs import Logprobs

COMPLETION = {"model": "tiny", "prompt": "abc"}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def spoken(running: Any) -> Any:
    """An engine that says ``ab!`` and how sure it was: the second token isn't the likeliest, and one is impossible."""
    tokens = [
        TokenEvent(97, Logprobs(-0.5, ((97, -0.5), (98, -1.5)))),
        TokenEvent(98, Logprobs(-3.0, ((99, -0.25), (100, -2.0)))),
        TokenEvent(33, Logprobs(-math.inf, ((128, -0.125), (101, -math.inf)))),
    ]
    running.state.engine.events = [*tokens, FinishedEvent(reason="length", generated=3)]
    return running.state.engine


def streamed(response: httpx.Response) -> list[dict[str, Any]]:
    *found, done, rest = response.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(one.removeprefix("data: ")) for one in found]


def test_a_completion_has_four_lists_of_equal_length(client: httpx.Client, spoken: Any) -> None:
    """API-15, API-16: offsets in the answer's text, the chosen token always there, no infinity."""
    body = client.post("/v1/completions", json={**COMPLETION, "logprobs": 2}).json()
    validate(body, "CreateCompletionResponse")
    assert spoken.asked[0].sampling.logprobs == 2
    assert body["choices"][0]["logprobs"] == {
        "tokens": ["a", "b", "!"],
        "token_logprobs": [-0.5, -3.0, -9999.0],
        "top_logprobs": [
            {"a": -0.5, "b": -1.5},
            {"c": -0.25, "d": -2.0, "b": -3.0},
            {"<end>": -0.125, "e": -9999.0, "!": -9999.0},
        ],
        "text_offset": [0, 1, 2],
    }


def test_a_chat_has_a_list_of_tokens(client: httpx.Client, spoken: Any) -> None:
    """API-16."""
    body = client.post("/v1/chat/completions", json={**CHAT, "logprobs": True, "top_logprobs": 2}).json()
    validate(body, "CreateChatCompletionResponse")
    logprobs = body["choices"][0]["logprobs"]
    assert logprobs["refusal"] is None
    assert [one["token"] for one in logprobs["content"]] == ["a", "b", "!"]
    assert logprobs["content"][2] == {
        "token": "!",
        "logprob": -9999.0,
        "bytes": [33],
        "top_logprobs": [
            {"token": "<end>", "logprob": -0.125, "bytes": [*b"<end>"]},
            {"token": "e", "logprob": -9999.0, "bytes": [101]},
        ],
    }


def test_streams_tell_the_same(client: httpx.Client, spoken: Any) -> None:
    whole = client.post("/v1/completions", json={**COMPLETION, "logprobs": 2}).json()["choices"][0]["logprobs"]
    found = streamed(client.post("/v1/completions", json={**COMPLETION, "logprobs": 2, "stream": True}))
    for chunk in found:
        validate_completion_chunk(chunk)
    pieces = [chunk["choices"][0]["logprobs"] for chunk in found if chunk["choices"][0]["logprobs"]]
    assert {name: [one for piece in pieces for one in piece[name]] for name in whole} == whole

    body = {**CHAT, "logprobs": True, "top_logprobs": 1}
    content = client.post("/v1/chat/completions", json=body).json()["choices"][0]["logprobs"]["content"]
    found = streamed(client.post("/v1/chat/completions", json={**body, "stream": True}))
    for chunk in found:
        validate(chunk, "CreateChatCompletionStreamResponse")
    told = [chunk["choices"][0]["logprobs"] for chunk in found]
    assert [one for logprobs in told if logprobs for one in logprobs["content"]] == content


def test_tokens_of_a_stop_string_are_not_told(client: httpx.Client, spoken: Any) -> None:
    """What isn't in the text isn't among its tokens."""
    body = {**COMPLETION, "logprobs": 0, "stop": "b!"}
    whole = client.post("/v1/completions", json=body).json()["choices"][0]
    assert (whole["text"], whole["logprobs"]["tokens"], whole["logprobs"]["top_logprobs"][0]["a"]) == ("a", ["a"], -0.5)
    found = streamed(client.post("/v1/completions", json={**body, "stream": True}))
    tokens = [chunk["choices"][0]["logprobs"]["tokens"] for chunk in found if chunk["choices"][0]["logprobs"]]
    assert tokens == [["a"]]


def test_without_being_asked_nothing_is_told(client: httpx.Client, running: Any) -> None:
    for more in ({}, {"logprobs": None}):
        client.post("/v1/completions", json={**COMPLETION, **more})
    client.post("/v1/chat/completions", json={**CHAT, "logprobs": False, "top_logprobs": 0})
    assert [request.sampling.logprobs for request in running.state.engine.asked] == [None] * 3


def test_no_token_has_no_logprobs(client: httpx.Client, running: Any) -> None:
    running.state.engine.events = [FinishedEvent(reason="stop", generated=1)]
    chat = client.post("/v1/chat/completions", json={**CHAT, "logprobs": True}).json()
    assert chat["choices"][0]["logprobs"] == {"content": [], "refusal": None}


@pytest.fixture
def scoring(spoken: Any) -> Any:
    """As `spoken`, and how likely ``abc`` is."""
    scores = [Logprobs(-2.0, ((97, -0.5), (98, -2.0))), Logprobs(-math.inf, ((97, -0.25), (98, -1.5)))]
    spoken.events = [*map(PromptEvent, scores), *spoken.events]
    return spoken


def test_those_of_an_echoed_prompt_come_first(client: httpx.Client, scoring: Any) -> None:
    """API-15: nothing comes before the first token, of which OpenAI says null."""
    body = {**COMPLETION, "echo": True, "logprobs": 2}
    answer = client.post("/v1/completions", json=body).json()
    validate(answer, "CreateCompletionResponse")
    assert [request.prompt_logprobs for request in scoring.asked] == [True]
    (choice,) = answer["choices"]
    assert choice["text"] == "abcab!"
    found = choice["logprobs"]
    assert found["tokens"] == ["a", "b", "c", "a", "b", "!"]
    assert found["token_logprobs"] == [None, -2.0, -9999.0, -0.5, -3.0, -9999.0]
    assert found["top_logprobs"][:3] == [None, {"a": -0.5, "b": -2.0}, {"a": -0.25, "b": -1.5, "c": -9999.0}]
    assert found["text_offset"] == [0, 1, 2, 3, 4, 5]
    chunks = streamed(client.post("/v1/completions", json={**body, "stream": True}))
    for chunk in chunks:
        validate_completion_chunk(chunk)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "abcab!"
    pieces = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"][0]["logprobs"]]
    assert {name: [one for piece in pieces for one in piece[name]] for name in found} == found


def test_a_prompt_alone_is_scored(client: httpx.Client, scoring: Any) -> None:
    """As tools ask that measure how likely texts are: token ids, no answer."""
    scoring.events = [*scoring.events[:2], FinishedEvent(reason="length", generated=0)]
    asked = {"prompt": [[97, 98, 99]], "echo": True, "logprobs": 1, "max_tokens": 0}
    body = client.post("/v1/completions", json={**COMPLETION, **asked}).json()
    (choice,) = body["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert choice["logprobs"]["token_logprobs"] == [None, -2.0, -9999.0]
    assert body["usage"] == counted(3, 0)


def test_an_echo_without_them_asks_for_none(client: httpx.Client, running: Any) -> None:
    choice = client.post("/v1/completions", json={**COMPLETION, "echo": True}).json()["choices"][0]
    assert (choice["text"], choice["logprobs"]) == ("abcHello", None)
    assert [request.prompt_logprobs for request in running.state.engine.asked] == [False]


def test_the_official_client_reads_them(official: openai.OpenAI, spoken: Any) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    chat = official.chat.completions.create(model="tiny", messages=messages, logprobs=True, top_logprobs=2)
    found = chat.choices[0].logprobs
    assert found is not None
    assert found.content is not None
    assert [(one.token, one.logprob, len(one.top_logprobs)) for one in found.content][:2] == [
        ("a", -0.5, 2),
        ("b", -3, 2),
    ]
    completion = official.completions.create(model="tiny", prompt="abc", logprobs=2)
    assert completion.choices[0].logprobs is not None
    assert completion.choices[0].logprobs.text_offset == [0, 1, 2]
