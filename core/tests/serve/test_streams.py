"""Streamed answers, read as bytes and by OpenAI's own client."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai_shapes import counted, validate, validate_completion_chunk
from sockets import open_request, wait_until

from truecluster._engine.requests import Event, FinishedEvent, TokenEvent

COMPLETION = {"model": "tiny", "prompt": "abc", "stream": True}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": True}
ROUTES = [("/v1/completions", COMPLETION), ("/v1/chat/completions", CHAT)]


def answer(text: str, reason: Any = "stop") -> list[Event]:
    return [*map(TokenEvent, text.encode()), FinishedEvent(reason=reason, generated=len(text) + 1)]


def events(response: httpx.Response) -> list[str]:
    """The data of each event of a body that has nothing else."""
    assert response.status_code == 200, response.text
    *frames, rest = response.text.split("\n\n")
    assert rest == ""
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [frame.removeprefix("data: ") for frame in frames]


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of a stream that ended as it should, each of which has its schema's shape."""
    *found, done = events(response)
    assert done == "[DONE]"
    parsed: list[dict[str, Any]] = [json.loads(one) for one in found]
    for chunk in parsed:
        if chunk["object"] == "text_completion":
            validate_completion_chunk(chunk)
        else:
            validate(chunk, "CreateChatCompletionStreamResponse")
    return parsed


def text_of(found: list[dict[str, Any]], index: int = 0) -> str:
    """What a client has once it has joined a choice's pieces."""
    mine = [choice for chunk in found for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in mine)


def test_a_chat_is_framed_as_openai_frames_it(client: httpx.Client) -> None:
    """API-33: one identity, the role first, one reason at the end, then the end of the stream."""
    response = client.post("/v1/chat/completions", json=CHAT)
    assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
    assert (response.headers["x-accel-buffering"], response.headers["cache-control"]) == ("no", "no-cache")
    found = chunks(response)
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in found}) == 1
    assert (found[0]["model"], found[0]["object"]) == ("tiny", "chat.completion.chunk")
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert [chunk["choices"][0]["delta"] for chunk in found[1:]] == [*({"content": c} for c in "Hello"), {}]
    assert [chunk["choices"][0]["finish_reason"] for chunk in found] == [None] * 6 + ["stop"]
    assert all("usage" not in chunk for chunk in found)


def test_a_completion_is_framed_as_openai_frames_it(client: httpx.Client) -> None:
    """API-33."""
    found = chunks(client.post("/v1/completions", json=COMPLETION))
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in found}) == 1
    assert found[0]["object"] == "text_completion"
    assert [chunk["choices"][0]["text"] for chunk in found] == [*"Hello", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in found] == [None] * 5 + ["stop"]


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
def test_usage_is_told_only_where_it_is_asked_for(client: httpx.Client, path: str, body: Any, options: Any) -> None:
    """API-12."""
    for chunk in chunks(client.post(path, json={**body, "stream_options": options})):
        assert chunk["choices"]
        assert "usage" not in chunk


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_usage_comes_in_a_last_chunk_without_choices(client: httpx.Client, path: str, body: Any) -> None:
    """API-12: every chunk before it has a usage of null."""
    *found, last = chunks(client.post(path, json={**body, "n": 2, "stream_options": {"include_usage": True}}))
    assert all(chunk["usage"] is None and len(chunk["choices"]) == 1 for chunk in found)
    prompt = 3 if path == "/v1/completions" else 8
    assert last["choices"] == []
    assert last["usage"] == counted(prompt, 12)
    assert last["id"] == found[0]["id"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_several_choices_each_have_their_own_text_and_reason(
    client: httpx.Client, running: Any, path: str, body: Any, stream: bool
) -> None:
    """API-13: the engine is asked once for each choice, with the choice beside the same seed."""
    running.state.engine.by_choice = [answer("one"), answer("four", "length"), answer("")]
    response = client.post(path, json={**body, "n": 3, "seed": 42, "temperature": 1, "stream": stream})
    asked = running.state.engine.asked
    assert [(request.choice, request.sampling.seed) for request in asked] == [(0, 42), (1, 42), (2, 42)]
    if stream:
        found = chunks(response)
        ends = [c for chunk in found for c in chunk["choices"] if c["finish_reason"]]
        assert {end["index"]: end["finish_reason"] for end in ends} == {0: "stop", 1: "length", 2: "stop"}
        assert (len(ends), [text_of(found, i) for i in range(3)]) == (3, ["one", "four", ""])
    else:
        whole = response.json()
        assert [(c["index"], c["finish_reason"]) for c in whole["choices"]] == [(0, "stop"), (1, "length"), (2, "stop")]
        texts = [c["text"] if "text" in c else c["message"]["content"] for c in whole["choices"]]
        assert texts == ["one", "four", ""]
        prompt = 3 if path == "/v1/completions" else 8
        assert whole["usage"] == counted(prompt, 10)


def test_choices_are_numbered_prompt_by_prompt(client: httpx.Client, running: Any) -> None:
    """API-13: as OpenAI numbers them; each prompt counts once."""
    running.state.engine.by_choice = [answer("x"), answer("y")]
    body = {**COMPLETION, "prompt": ["a", "bc"], "n": 2, "stream_options": {"include_usage": True}}
    *found, last = chunks(client.post("/v1/completions", json=body))
    assert [text_of(found, i) for i in range(4)] == ["x", "y", "x", "y"]
    assert [request.prompt for request in running.state.engine.asked] == [(97,), (97,), (98, 99), (98, 99)]
    assert last["usage"] == counted(3, 8)


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize("stop", ["4, 5", ["4, 5"], ["zzz", "4, 5x"], ["4, 5", ", 4"], None])
def test_a_stream_is_the_answer_piece_by_piece(
    client: httpx.Client, running: Any, path: str, body: Any, stop: Any
) -> None:
    """API-01, API-04: no letter of a stop string is told, though it comes over several tokens."""
    text = "1, 2, 3, 4, 5x and 6"
    running.state.engine.events = answer(text)
    found = chunks(client.post(path, json={**body, "stop": stop}))
    whole = client.post(path, json={**body, "stop": stop, "stream": False}).json()["choices"][0]
    ends = {None: text, ("4, 5", ", 4"): "1, 2, 3"}
    expected = ends.get(tuple(stop) if isinstance(stop, list) else stop, "1, 2, 3, ")
    assert text_of(found) == (whole["text"] if "text" in whole else whole["message"]["content"]) == expected
    assert found[-1]["choices"][0]["finish_reason"] == whole["finish_reason"] == "stop"


@pytest.mark.parametrize(("prompt", "shown"), [("abc", "abc"), ([72, 128, 73], "H<end>I")])
def test_echo_puts_the_prompt_before_the_answer(client: httpx.Client, prompt: Any, shown: str) -> None:
    """API-15: also in streams, and a stop string in the prompt ends nothing."""
    body = {**COMPLETION, "prompt": prompt, "echo": True, "stop": ["b", "I"], "n": 2}
    found = chunks(client.post("/v1/completions", json=body))
    whole = client.post("/v1/completions", json={**body, "stream": False}).json()
    assert [text_of(found, i) for i in range(2)] == [choice["text"] for choice in whole["choices"]]
    assert text_of(found) == shown + "Hello"


def test_a_prompt_alone_is_echoed(client: httpx.Client, running: Any) -> None:
    """API-07: no token is asked for, none is counted, and the text is the prompt."""
    running.state.engine.events = [FinishedEvent(reason="length", generated=0)]
    body = {**COMPLETION, "max_tokens": 0, "echo": True, "stream_options": {"include_usage": True}}
    *found, last = chunks(client.post("/v1/completions", json=body))
    assert (text_of(found), found[-1]["choices"][0]["finish_reason"]) == ("abc", "length")
    assert last["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_a_failure_midway_is_told_and_is_no_end(
    client: httpx.Client, running: Any, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """API-10, API-32, SEC-16: an error's event, neither a reason nor an end, and no word of what only the log knows."""
    failure = FinishedEvent(reason="error", generated=1, message="node at /home/me/10.0.0.7 was lost")
    running.state.engine.events = [*map(TokenEvent, b"ab"), failure]
    response = client.post(path, json=body)
    *found, last = map(json.loads, events(response))
    assert text_of(found) == "ab"
    assert all(choice["finish_reason"] is None for chunk in found for choice in chunk["choices"])
    validate(last, "ErrorResponse")
    assert last["error"]["type"] == "server_error"
    assert "/home" not in response.text
    assert response.headers["x-request-id"] in last["error"]["message"]
    assert "/home/me/10.0.0.7" in caplog.text
    assert response.headers["x-request-id"] in caplog.text


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_a_failure_of_one_choice_cancels_the_others(client: httpx.Client, running: Any, path: str, body: Any) -> None:
    engine = running.state.engine
    failure = FinishedEvent(reason="error", generated=1, message="lost")
    engine.by_choice = [[TokenEvent(0x61)], [TokenEvent(0x62), failure]]
    assert "error" in json.loads(events(client.post(path, json={**body, "n": 2}))[-1])
    assert client.post(path, json={**body, "n": 2, "stream": False}).status_code == 500
    assert all(handle.cancelled.is_set() for handle in engine.handles)


def test_a_failure_before_the_first_token_has_a_status(client: httpx.Client, running: Any) -> None:
    """API-10: as without streaming, so that clients try again."""
    running.state.engine.events = [FinishedEvent(reason="error", generated=0, message="lost")]
    response = client.post("/v1/chat/completions", json=CHAT)
    validate(response.json(), "ErrorResponse")
    assert (response.status_code, response.headers["content-type"]) == (500, "application/json")


@pytest.mark.parametrize(("told", "status"), [(b"", 503), (b"ab", 200)], ids=["before a token", "after two"])
def test_what_ends_with_the_server_is_told_so(
    client: httpx.Client, running: Any, caplog: pytest.LogCaptureFixture, told: bytes, status: int
) -> None:
    """It is no failure, so the log has nothing of it; clients may try again."""

    def ending() -> Iterator[Event]:
        yield from map(TokenEvent, told)
        running.state.leaving = True
        yield FinishedEvent(reason="error", generated=len(told), message="the engine has stopped")

    running.state.engine.events = ending()
    response = client.post("/v1/completions", json=COMPLETION)
    last = json.loads(events(response)[-1]) if told else response.json()
    validate(last, "ErrorResponse")
    assert (last["error"]["type"], "is stopping" in last["error"]["message"]) == ("server_error", True)
    assert (response.status_code, response.headers.get("retry-after")) == (status, None if told else "5")
    later = client.post("/v1/completions", json={**COMPLETION, "stream": False})
    assert (later.status_code, "is stopping" in later.text) == (503, True)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_what_is_wrong_with_a_prompt_has_a_status(client: httpx.Client) -> None:
    response = client.post("/v1/completions", json={**COMPLETION, "prompt": "a" * 101})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_the_first_token_is_told_before_the_second_is_there(running: Any) -> None:
    """Nothing between the engine and the client waits for more."""
    running.state.engine.events = [TokenEvent(0x61)]
    with httpx.stream("POST", f"{running.url}/v1/completions", json=COMPLETION, timeout=20) as response:
        assert '"text":"a"' in next(response.iter_text())
    wait_until(lambda: running.state.engine.handles[0].cancelled.is_set())


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_clients_that_leave_after_the_first_token_cancel(
    running: Any, client: httpx.Client, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """API-30, API-31: over real sockets, every choice of every stream."""
    engine = running.state.engine
    engine.events = [TokenEvent(0x61)]
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open_request(running.port, path, {**body, "n": 2})) for _ in range(4)]
        for stream in streams:
            wait_for_data(stream)
        assert not any(handle.cancelled.is_set() for handle in engine.handles)
    wait_until(lambda: len(engine.handles) == 8 and all(handle.cancelled.is_set() for handle in engine.handles))
    engine.events = answer("Hello")
    assert text_of(chunks(client.post(path, json=body))) == "Hello"
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def wait_for_data(stream: socket.socket) -> None:
    received = b""
    while b"data: " not in received:
        received += stream.recv(65536)


def test_a_server_that_stops_ends_its_streams(stoppable: Any) -> None:
    stoppable.state.engine.events = [TokenEvent(0x61)]
    with open_request(stoppable.port, "/v1/completions", COMPLETION) as stream:
        wait_for_data(stream)
        stoppable.stop()
    assert stoppable.state.engine.handles[0].cancelled.is_set()


def test_the_official_client_reads_streams(official: openai.OpenAI, running: Any) -> None:
    running.state.engine.by_choice = [answer("one"), answer("four", "length")]
    usage: Any = {"include_usage": True}
    messages: Any = [{"role": "user", "content": "hi"}]
    with official.chat.completions.create(
        model="tiny", messages=messages, stream=True, n=2, stream_options=usage
    ) as stream:
        found = list(stream)
    joined = {0: "", 1: ""}
    for chunk in found:
        for choice in chunk.choices:
            joined[choice.index] += choice.delta.content or ""
    assert joined == {0: "one", 1: "four"}
    assert found[-1].usage is not None
    assert found[-1].usage.completion_tokens == 9
    pieces = official.completions.create(model="tiny", prompt="abc", stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == "one"


def test_the_official_clients_own_joining_gives_the_whole(official: openai.OpenAI) -> None:
    """Its helper checks the order of what comes and builds the message from it."""
    messages: Any = [{"role": "user", "content": "hi"}]
    with official.chat.completions.stream(model="tiny", messages=messages) as stream:
        whole = stream.get_final_completion()
    message = whole.choices[0].message
    assert (message.role, message.content, whole.choices[0].finish_reason) == ("assistant", "Hello", "stop")


def test_the_official_client_raises_what_ends_a_stream(official: openai.OpenAI, running: Any) -> None:
    """API-32."""
    failure = FinishedEvent(reason="error", generated=1, message="lost")
    running.state.engine.events = [TokenEvent(0x61), failure]
    with pytest.raises(openai.APIError, match="the cluster failed"):
        list(official.completions.create(model="tiny", prompt="abc", stream=True))


def test_many_streams_at_once_get_their_own_answers(running: Any) -> None:
    texts = [chr(97 + i) * (i + 1) for i in range(12)]
    running.state.engine.by_choice = list(map(answer, texts))
    found: dict[int, list[str]] = {}

    def ask(number: int) -> None:
        body = {**COMPLETION, "n": len(texts)}
        joined = chunks(httpx.post(f"{running.url}/v1/completions", json=body, timeout=60))
        found[number] = [text_of(joined, i) for i in range(len(texts))]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(8), texts)
