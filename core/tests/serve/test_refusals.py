from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from openai_shapes import validate

from truecluster._serve import Readiness
from truecluster.api import Busy

COMPLETION = {"model": "tiny", "prompt": "abc"}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
JSON = {"content-type": "application/json"}


def error(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a response that must have OpenAI's shape."""
    body = response.json()
    validate(body, "ErrorResponse")
    assert (response.status_code, set(body), set(body["error"])) == (
        status,
        {"error"},
        {"message", "type", "param", "code"},
    )
    found: dict[str, Any] = body["error"]
    return found


def alive(client: httpx.Client) -> bool:
    return client.post("/v1/completions", json=COMPLETION).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"42",
        b'"x"',
        b"\xff\xfe",
        b'{"model": "tiny", "prompt": "\xff"}',
        b'{"model": "tiny", "prompt": "a", "temperature": NaN}',
        b'{"model": "tiny", "prompt": "a", "temperature": 1e999}',
        b'{"model": "tiny", "prompt": "a", "top_p": -Infinity}',
        b'{"model": "tiny", "prompt": "a", "unknown": [Infinity]}',
        b'{"model": "tiny", "prompt": "a", "unknown": 1e999}',
        b'{"model": "tiny", "prompt": "a", "seed": ' + b"1" * 5000 + b"}",
        b'{"model": "tiny", "prompt": ' + b"[" * 100_000,
        b'{"model": "tiny", "prompt": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    ],
    ids=lambda body: body[:48].decode("latin-1"),
)
def test_bodies_that_are_no_json_object_are_refused(client: httpx.Client, body: bytes) -> None:
    """API-26, API-27: the input is never echoed."""
    found = error(client.post("/v1/completions", content=body, headers=JSON), 400)
    assert found["type"] == "invalid_request_error"
    assert "NaN" not in str(found["param"])
    assert alive(client)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("completions", '{"model": "\\ud800", "prompt": "a"}', "model"),
        ("completions", '{"model": "tiny", "prompt": "\\ud800"}', "prompt"),
        ("completions", '{"model": "tiny", "prompt": "a", "stop": ["x", "\\udfff"]}', "stop[1]"),
        ("completions", '{"model": "tiny", "prompt": "a", "user": "\\ud800"}', "user"),
        ("chat/completions", '{"model": "tiny", "messages": [{"role": "user", "content": "\\ud800"}]}', None),
        ("chat/completions", '{"model": "tiny", "messages": [], "tools": [{"name": "\\ud800"}]}', "tools[0].name"),
    ],
)
def test_half_a_surrogate_pair_is_named(client: httpx.Client, path: str, body: str, param: str | None) -> None:
    """API-28: as no tokenizer and no response can carry it."""
    found = error(client.post(f"/v1/{path}", content=body.encode(), headers=JSON), 400)
    assert found["param"] == (param or "messages[0].content")


def deep(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [120, 200, 600])
def test_what_is_nested_too_deeply_is_the_clients_mistake(client: httpx.Client, depth: int) -> None:
    """In every field that is handed on; a call's arguments stay text where they are no JSON to us."""
    tool = {"type": "function", "function": {"name": "f", "parameters": deep(depth)}}
    message = {"role": "user", "content": "hi", "more": deep(depth)}
    for more in ({"metadata": deep(depth)}, {"messages": [message]}, {"tools": [tool], "tool_choice": "none"}):
        response = client.post("/v1/chat/completions", json={**CHAT, **more})
        if depth < 128:
            assert response.status_code == 200, response.text
        else:
            assert "nested too deeply" in error(response, 400)["message"]
    call = {"type": "function", "function": {"name": "f", "arguments": json.dumps(deep(depth))}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert client.post("/v1/chat/completions", json={**CHAT, "messages": [said]}).status_code == 200


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_tokens", [-1, True, "5", 5.0, 10**23]),
        ("temperature", [-0.1, 2.1, 999999, True, "1"]),
        ("top_p", [-0.1, 1.1, False]),
        ("seed", [1.0, 2**63, -(2**63) - 1, 10**26, True]),
        ("stop", ["", ["", "x"], ["a"] * 5, 7, [1, 2], {}]),
        ("n", [0, 129, True, 10**23, "1", 1.0]),
        ("stream", ["yes", 1]),
        ("stream_options", [{}, {"include_usage": True}]),
        ("echo", ["yes", 0]),
        ("logprobs", [-1, 6, True, 1.0]),
        ("top_logprobs", [5]),
        ("best_of", [3, 0]),
        ("suffix", ["x"]),
        ("logit_bias", [[], {"191222": -100}, {"140": 1}, {"-1": 5}, {"abc": 1}, {"1.0": 1}, {"٣": 1}, {"1" * 30: 1}]),
        ("logit_bias", [{str(i): 1 for i in range(5000)}]),
        ("frequency_penalty", [2.1, -2.1, False]),
        ("presence_penalty", [2.1, -2.1, "1"]),
        ("top_k", [-2, 10**10, 1.5]),
        ("min_p", [-1, 1.1]),
        ("repetition_penalty", [0, -1, True]),
        ("repeat_penalty", [1.1]),
        ("response_format", ["json", []]),
        ("tools", [[{"type": "function"}]]),
        ("chat_template", ["{{ 1 }}"]),
        ("chat_template_kwargs", [{"tokenize": True}]),
        ("model", [5, None]),
        ("prompt", [None, 5, [], [[]], ["a", 5], [1.0], [True], {}, [129], [-1], "", ["a"] * 129]),
        ("user", [5]),
    ],
)
def test_fields_of_completions_are_named(client: httpx.Client, running: Any, name: str, values: list[Any]) -> None:
    """API-03, API-04, API-07, API-36, SAMP-03, SEC-03, SEC-04, SEC-06: before anything is asked of the engine."""
    for value in values:
        assert error(client.post("/v1/completions", json={**COMPLETION, name: value}), 400)["param"] == name
    assert not running.state.engine.asked


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_tokens", [0, -5]),
        ("max_completion_tokens", [0, True]),
        ("messages", [None, [], "hi", {}]),
        ("tools", [{}, "f"]),
        ("tool_choice", ["required"]),
        ("response_format", ["json", []]),
        ("logprobs", [1, "true"]),
        ("top_logprobs", [5, 21, -1]),
        ("functions", [[{"name": "f"}]]),
        ("audio", [{}]),
        ("modalities", [["text", "audio"]]),
        ("reasoning_effort", ["high"]),
        ("n", [0, 129]),
        ("prompt", ["x"]),
        ("echo", [True]),
        ("chat_template", ["{{ 1 }}"]),
        ("chat_template_kwargs", [{"tokenize": True}]),
    ],
)
def test_fields_of_chats_are_named(client: httpx.Client, running: Any, name: str, values: list[Any]) -> None:
    """API-07, API-36, SEC-06: as for completions."""
    for value in values:
        assert error(client.post("/v1/chat/completions", json={**CHAT, name: value}), 400)["param"] == name
    assert not running.state.engine.asked


@pytest.mark.parametrize(
    ("body", "name", "value", "instead"),
    [
        (CHAT, "guided_json", {}, "give 'response_format' with a JSON schema"),
        (CHAT, "functions", [{"name": "f"}], "give 'tools'"),
        (COMPLETION, "repeat_penalty", 1.1, "give 'repetition_penalty'"),
        (COMPLETION, "grammar", "root ::= x", "leave it out"),
    ],
)
def test_a_refusal_names_what_there_is_instead(
    client: httpx.Client, body: dict[str, Any], name: str, value: Any, instead: str
) -> None:
    path = "/v1/chat/completions" if body is CHAT else "/v1/completions"
    found = error(client.post(path, json={**body, name: value}), 400)
    assert found["message"] == f"'{name}' isn't supported; {instead}"


@pytest.mark.parametrize(
    "messages", [[123], [{}], [{"role": 123}], [{"role": "user"}], [{"role": "wizard", "content": "x"}]]
)
def test_malformed_messages_are_named(client: httpx.Client, messages: Any) -> None:
    """API-21: and the server goes on."""
    found = error(client.post("/v1/chat/completions", json={**CHAT, "messages": messages}), 400)
    assert found["param"].startswith("messages[0]")
    assert alive(client)


def test_a_field_that_is_missing_is_named(client: httpx.Client) -> None:
    assert error(client.post("/v1/completions", json={"prompt": "a"}), 400)["param"] == "model"
    assert error(client.post("/v1/completions", json={"model": "tiny"}), 400)["param"] == "prompt"
    assert error(client.post("/v1/chat/completions", json={"model": "tiny"}), 400)["param"] == "messages"


@pytest.mark.parametrize("name", ["does-not-exist", "", "é" * 5000])
def test_an_unknown_model_is_not_found(client: httpx.Client, name: str) -> None:
    """API-25: whatever the name is."""
    for path, body in (("completions", COMPLETION), ("chat/completions", CHAT)):
        found = error(client.post(f"/v1/{path}", json={**body, "model": name}), 404)
        assert (found["param"], found["code"], found["type"]) == ("model", "model_not_found", "invalid_request_error")
        assert len(found["message"]) < 600


@pytest.mark.parametrize(
    "name",
    [
        *("../../etc/passwd", "/etc/shadow", "a/../../b", "C:\\x", "http://169.254.169.254/", "org/name@../../x"),
        *("%2e%2e%2f", "tiny/../tiny", "./tiny", " tiny", "TINY"),
    ],
)
def test_a_model_is_looked_up_and_never_a_place(client: httpx.Client, name: str) -> None:
    """SEC-07: only the exact name is found; a path or an address in its place is just another name."""
    found = error(client.post("/v1/completions", json={**COMPLETION, "model": name}), 404)
    assert found["code"] == "model_not_found"
    assert client.get(f"/v1/models/{quote(name, safe='')}").status_code == 404


def test_no_address_in_a_message_is_asked(client: httpx.Client) -> None:
    """SEC-07: content of another kind than text is refused by name, and whoever it points to hears nothing."""
    with socket.create_server(("127.0.0.1", 0)) as pointed_to:
        url = f"http://127.0.0.1:{pointed_to.getsockname()[1]}/x.png"
        parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
        message = {"role": "user", "content": parts}
        found = error(client.post("/v1/chat/completions", json={**CHAT, "messages": [message]}), 400)
        assert found["param"].startswith("messages[0].content[1]")
        pointed_to.settimeout(0.2)
        with pytest.raises(TimeoutError):
            pointed_to.accept()


def test_a_bias_that_is_too_large_is_named_by_its_token(client: httpx.Client) -> None:
    """SEC-04."""
    for value in (1e308, -101, "x", None):
        found = error(client.post("/v1/completions", json={**COMPLETION, "logit_bias": {"5": value}}), 400)
        assert found["param"] == "logit_bias.5"


def test_more_answers_than_one_request_may_ask_for(client: httpx.Client, running: Any) -> None:
    """SEC-03: said with the numbers, before anything is made."""
    found = error(client.post("/v1/completions", json={**COMPLETION, "prompt": ["a"] * 50, "n": 3}), 400)
    assert found["param"] == "n"
    assert all(number in found["message"] for number in ("50", "150", "128"))
    for name in ("n", "best_of"):
        assert error(client.post("/v1/completions", json={**COMPLETION, name: 1_000_000}), 400)["param"] == name
    assert not running.state.engine.asked


def test_usage_is_no_option_without_a_stream(client: httpx.Client) -> None:
    """API-12."""
    for options in ({}, {"include_usage": True}):
        for more in ({}, {"stream": False}):
            found = error(client.post("/v1/completions", json={**COMPLETION, "stream_options": options, **more}), 400)
            assert found["param"] == "stream_options"


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"include_usage": 1}, "stream_options.include_usage"),
        ({"include_obfuscation": True}, "stream_options.include_obfuscation"),
        ({"continuous_usage_stats": True}, "stream_options.continuous_usage_stats"),
        ([], "stream_options"),
    ],
)
def test_options_of_a_stream_are_named(client: httpx.Client, options: Any, param: str) -> None:
    body = {**COMPLETION, "stream": True, "stream_options": options}
    assert error(client.post("/v1/completions", json=body), 400)["param"] == param


def test_a_queue_that_is_full_says_when_to_come_back(client: httpx.Client, running: Any) -> None:
    """Also to a stream, which has not begun."""
    running.state.engine.refuse = Busy("256 requests wait already", 7)
    for stream in (False, True):
        response = client.post("/v1/completions", json={**COMPLETION, "stream": stream})
        found = error(response, 429)
        assert (response.headers["retry-after"], found["code"]) == ("7", "rate_limit_exceeded")


def test_two_limits_that_differ_are_refused(client: httpx.Client) -> None:
    limits = {"max_tokens": 5, "max_completion_tokens": 6}
    assert error(client.post("/v1/chat/completions", json={**CHAT, **limits}), 400)["param"] == "max_tokens"


def test_a_prompt_over_the_context_says_the_numbers(client: httpx.Client) -> None:
    """API-07: not a number that only the server could mean."""
    found = error(client.post("/v1/completions", json={**COMPLETION, "prompt": "a" * 101}), 400)
    assert (found["code"], found["param"]) == ("context_length_exceeded", "prompt")
    assert "100 tokens" in found["message"]
    assert "101" in found["message"]


def test_routes_and_methods_that_are_not_there(client: httpx.Client) -> None:
    """API-26: in the same shape."""
    for path in ("/v1", "/v1/other", "/v1/completions/", "/docs", "/openapi.json"):
        error(client.get(path), 404)
    response = client.get("/v1/completions")
    error(response, 405)
    assert response.headers["allow"] == "POST"
    error(client.delete("/v1/models"), 405)


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_bodies_of_another_type_are_refused(client: httpx.Client, kind: str) -> None:
    """API-26: no page of another origin can send JSON unasked."""
    error(client.post("/v1/completions", content=json.dumps(COMPLETION), headers={"content-type": kind}), 415)


def test_bodies_without_end_are_refused(client: httpx.Client) -> None:
    """SEC-03: declared or not."""
    large = b'{"model": "tiny", "prompt": "' + b"a" * (4 * 1024 * 1024) + b'"}'
    error(client.post("/v1/completions", content=large, headers=JSON), 413)
    chunks = (large[i : i + 65536] for i in range(0, len(large), 65536))
    error(client.post("/v1/completions", content=chunks, headers=JSON), 413)
    assert alive(client)


def test_a_cluster_that_is_not_ready_says_how_many_nodes_it_needs(client: httpx.Client, running: Any) -> None:
    running.state.readiness = Readiness(alive=True, ready=False, required=3, connected=1)
    for path, body in (("completions", COMPLETION), ("chat/completions", CHAT)):
        response = client.post(f"/v1/{path}", json=body)
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert response.json() == {
            "error": {
                "message": "Model is not ready. Required nodes: 3, connected ready nodes: 1",
                "type": "cluster_not_ready",
                "param": None,
                "code": None,
            }
        }
    assert client.get("/v1/models").status_code == 200
