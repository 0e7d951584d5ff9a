from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from openai_shapes import counted, validate

from truecluster._engine.requests import CachedEvent, FinishedEvent, TokenEvent
from truecluster.api import RequestError

COMPLETION = {"model": "tiny", "prompt": "abc"}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def test_models_are_listed_and_found_by_name(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    validate(listed, "ListModelsResponse")
    assert [model["id"] for model in listed["data"]] == ["org/tiny", "tiny"]
    for name in ("org/tiny", "tiny", "org%2Ftiny"):
        found = client.get(f"/v1/models/{name}").json()
        validate(found, "Model")
        assert (found["created"], found["max_model_len"]) == (1_700_000_000, 100)
    assert client.get("/v1/models/other").json()["error"]["code"] == "model_not_found"


def test_a_completion_has_openais_shape_and_right_counts(client: httpx.Client, running: Any) -> None:
    response = client.post("/v1/completions", json=COMPLETION)
    body = response.json()
    validate(body, "CreateCompletionResponse")
    assert response.status_code == 200
    assert body["model"] == "tiny"
    assert body["choices"] == [{"index": 0, "text": "Hello", "finish_reason": "stop", "logprobs": None}]
    assert body["usage"] == counted(3, 6)
    asked = running.state.engine.asked[0]
    assert (asked.prompt, asked.max_tokens) == (tuple(b"abc"), 16)
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.seed) == (1.0, 1.0, None)


def test_a_chat_has_openais_shape_and_right_counts(client: httpx.Client, running: Any) -> None:
    body = client.post("/v1/chat/completions", json={**CHAT, "model": "org/tiny"}).json()
    validate(body, "CreateChatCompletionResponse")
    assert body["model"] == "org/tiny"
    message = {"role": "assistant", "content": "Hello", "refusal": None}
    assert body["choices"] == [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}]
    assert body["usage"] == counted(8, 6)
    asked = running.state.engine.asked[0]
    assert (asked.prompt, asked.max_tokens) == ((*b"user:hi", 128), 92)


def test_what_can_be_got_can_be_asked_for_without_its_body(client: httpx.Client) -> None:
    for path in ("/health", "/v1/models", "/v1/models/tiny", "/cluster", "/"):
        asked, got = client.head(path), client.get(path)
        assert (asked.status_code, asked.content) == (200, b"")
        assert asked.headers["content-type"] == got.headers["content-type"]
    assert client.head("/v1/completions").status_code == 405


def test_the_official_client_reads_answers_and_errors(official: openai.OpenAI) -> None:
    assert [model.id for model in official.models.list()] == ["org/tiny", "tiny"]
    assert official.models.retrieve("org/tiny").id == "org/tiny"
    assert official.completions.create(model="tiny", prompt="abc").choices[0].text == "Hello"
    messages: Any = [{"role": "user", "content": "hi"}]
    chat = official.chat.completions.create(model="tiny", messages=messages)
    assert chat.choices[0].message.content == "Hello"
    with pytest.raises(openai.NotFoundError) as absent:
        official.chat.completions.create(model="other", messages=messages)
    assert absent.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        official.chat.completions.create(model="tiny", messages=messages, top_logprobs=3)
    assert refused.value.param == "top_logprobs"


def test_fields_reach_the_engine(client: httpx.Client, running: Any) -> None:
    fields = {"temperature": 0, "top_p": 0.5, "seed": -5, "stop": "l", "max_completion_tokens": 7, "user": "me", "n": 1}
    more = {"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": -2, "frequency_penalty": 2}
    body = client.post("/v1/chat/completions", json={**CHAT, **fields, **more, "logit_bias": {"7": -100}}).json()
    assert body["choices"][0]["message"]["content"] == "He"
    assert body["usage"]["completion_tokens"] == 3
    asked = running.state.engine.asked[0]
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.seed) == (0.0, 0.5, -5)
    assert {name: getattr(asked.sampling, name) for name in more} == more
    assert asked.sampling.logit_bias == {7: -100.0}
    assert asked.max_tokens == 7


def test_a_requests_owner_is_who_the_body_says_or_where_it_comes_from(client: httpx.Client, running: Any) -> None:
    said = [{}, {"user": None}, {"user": "me"}, {"user": "me", "safety_identifier": "us"}]
    for fields, owner in zip(said, ["127.0.0.1", "127.0.0.1", "me", "us"], strict=True):
        for path, body in (("completions", COMPLETION), ("chat/completions", CHAT)):
            assert client.post(f"/v1/{path}", json={**body, **fields, "n": 2}).status_code == 200
            assert [asked.owner for asked in running.state.engine.asked[-2:]] == [owner] * 2


def test_null_is_absent(client: httpx.Client, running: Any) -> None:
    """API-06: for every field that may be null."""
    names = ["max_tokens", "n", "stop", "seed", "stream", "logprobs", "temperature", "top_p", "logit_bias", "user"]
    nulls = dict.fromkeys([*names, "stream_options", "echo", "suffix", "best_of"])
    assert client.post("/v1/completions", json={**COMPLETION, **nulls}).status_code == 200
    assert running.state.engine.asked[0].max_tokens == 16
    assert client.post("/v1/chat/completions", json={**CHAT, **dict.fromkeys([*names, "tools"])}).status_code == 200


@pytest.mark.parametrize("stop", [None, "\n", ["\n"], [], ["a", "b", "c", "d"]])
def test_stop_takes_every_form(client: httpx.Client, stop: Any) -> None:
    """API-04: OpenAI allows one to four."""
    assert client.post("/v1/completions", json={**COMPLETION, "stop": stop}).status_code == 200


def test_prompts_may_be_ids_and_several(client: httpx.Client, running: Any) -> None:
    assert client.post("/v1/completions", json={**COMPLETION, "prompt": [1, 2]}).json()["usage"]["prompt_tokens"] == 2
    body = client.post("/v1/completions", json={**COMPLETION, "prompt": ["a", [1, 2], "bcd"]}).json()
    validate(body, "CreateCompletionResponse")
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert body["usage"] == counted(6, 18)
    assert {request.prompt for request in running.state.engine.asked} == {(1, 2), (0x61,), tuple(b"bcd")}


def test_tokens_that_lay_in_pages_are_counted_for_each_prompt_once(client: httpx.Client, running: Any) -> None:
    """Also where a stop string ends the answer before the engine does."""
    running.state.engine.events = [
        CachedEvent(2),
        *map(TokenEvent, b"Hello"),
        FinishedEvent(reason="stop", generated=6),
    ]
    body = client.post("/v1/completions", json={**COMPLETION, "prompt": ["abc", "abcd"], "n": 2}).json()
    validate(body, "CreateCompletionResponse")
    assert body["usage"] == counted(7, 24, cached=4)
    body = client.post("/v1/completions", json={**COMPLETION, "stop": "l"}).json()
    assert body["usage"] == counted(3, 3, cached=2)
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    *_, usage, done, _ = client.post("/v1/completions", json={**COMPLETION, "n": 2, **stream}).text.split("\n\n")
    assert done == "data: [DONE]"
    assert json.loads(usage.removeprefix("data: "))["usage"] == counted(3, 12, cached=2)


def test_no_tokens_asked_is_length(client: httpx.Client, running: Any) -> None:
    """API-07: as the specification says of 0."""
    running.state.engine.events = [FinishedEvent(reason="length", generated=0)]
    body = client.post("/v1/completions", json={**COMPLETION, "max_tokens": 0}).json()
    assert body["choices"][0] == {"index": 0, "text": "", "finish_reason": "length", "logprobs": None}
    assert body["usage"]["completion_tokens"] == 0


def test_values_that_ask_for_nothing_are_taken(client: httpx.Client) -> None:
    neutral = {"n": 1, "stream": False, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "top_k": -1}
    harmless = {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto"}
    chat = {"logprobs": False, "response_format": {"type": "text"}, "tools": [], "tool_choice": "none"}
    response = client.post("/v1/chat/completions", json={**CHAT, **neutral, **harmless, **chat})
    assert response.status_code == 200
    assert "x-truecluster-warning" not in response.headers
    assert (
        client.post("/v1/completions", json={**COMPLETION, **neutral, "best_of": 1, "echo": False}).status_code == 200
    )


def test_unknown_fields_are_answered_with_a_warning(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    """API-36: in a header and one line of the log."""
    response = client.post("/v1/completions", json={**COMPLETION, "logit_biass": {}, "a\r\nb: é": 1})
    assert response.status_code == 200
    expected = 'unknown fields were ignored: "logit_biass", "a\\r\\nb: \\u00e9"'
    assert response.headers["x-truecluster-warning"] == expected
    own = [record for record in caplog.records if record.name == "truecluster.serve"]
    assert [record.message.count("\n") for record in own] == [0]
    assert '"logit_biass"' in caplog.text


def test_a_failing_engine_is_a_500_that_tells_nothing_private(
    client: httpx.Client, running: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """API-10, SEC-16: the log has the rest."""
    failure = FinishedEvent(reason="error", generated=1, message="node at /home/me/10.0.0.7 was lost")
    running.state.engine.events = [TokenEvent(0x61), failure]
    response = client.post("/v1/completions", json={**COMPLETION, "prompt": ["a", "b"]})
    validate(response.json(), "ErrorResponse")
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
    assert "/home" not in response.text
    assert "/home/me/10.0.0.7" in caplog.text


def test_what_the_engine_refuses_is_a_400(client: httpx.Client, running: Any) -> None:
    running.state.engine.refuse = RequestError("the cache has room for 5 tokens", "prompt", "context_length_exceeded")
    response = client.post("/v1/completions", json=COMPLETION)
    validate(response.json(), "ErrorResponse")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")
