"""The clients that people point at the API, in front of a cluster of real nodes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from answers import official_client
from commands import Commands, Served
from others_clients import conversation

MESSAGES: list[Any] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello"},
]
WAY: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 12}
PROGRAM = Path(__file__).parent / "helpers" / "others_clients.py"


def chat(official: openai.OpenAI, messages: list[Any] = MESSAGES, **body: Any) -> Any:
    return official.chat.completions.create(messages=messages, **{**WAY, **body})


def test_openais_stream_helper_ends_with_the_answer_that_comes_whole(official: openai.OpenAI) -> None:
    """It takes an answer that was cut off for a failure, so a stop string ends this one."""
    stop = chat(official).choices[0].message.content[5:7]
    whole = chat(official, stop=stop).choices[0]
    with official.chat.completions.stream(messages=MESSAGES, stop=stop, **WAY) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion().choices[0]
    assert (final.message.content, final.finish_reason) == (whole.message.content, "stop")
    assert kinds.count("content.done") == 1
    assert "content.delta" in kinds


def test_openais_raw_responses_have_the_headers(official: openai.OpenAI) -> None:
    raw = official.completions.with_raw_response.create(prompt="Hello", **WAY)
    assert raw.headers["content-type"] == "application/json"
    assert raw.headers["x-request-id"].startswith("req_")
    assert raw.parse().choices[0].text == official.completions.create(prompt="Hello", **WAY).choices[0].text
    with official.completions.with_streaming_response.create(prompt="Hello", stream=True, **WAY) as streaming:
        assert streaming.headers["content-type"].startswith("text/event-stream")
        assert [line for line in streaming.iter_lines() if line][-1] == "data: [DONE]"


def test_openais_asynchronous_client_is_answered_beside_itself(api: Served, official: openai.OpenAI) -> None:
    prompts = ["Hello", "What is it?", "x"]
    expected = [official.completions.create(prompt=prompt, **WAY).choices[0].text for prompt in prompts]

    async def ask() -> list[str]:
        url = f"http://127.0.0.1:{api.api}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

            async def one(prompt: str) -> str:
                chunks = await client.completions.create(prompt=prompt, stream=True, **WAY)
                return "".join([chunk.choices[0].text async for chunk in chunks])

            return await asyncio.gather(*map(one, prompts))

    assert asyncio.run(ask()) == expected


def test_openais_exceptions_are_those_of_openai(official: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as absent:
        chat(official, model="large")
    assert absent.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        chat(official, temperature=3)
    assert (refused.value.param, refused.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as long:
        official.completions.create(prompt="x" * 4096, **WAY)
    assert long.value.code == "context_length_exceeded"


def test_a_full_queue_is_a_rate_limit_that_says_when_to_come_back(api: Served, official: openai.OpenAI) -> None:
    """Of three who ask for 128 long answers each, one asks for more than may wait."""

    async def refused() -> BaseException | None:
        url = f"http://127.0.0.1:{api.api}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            body = {**WAY, "prompt": "Go on", "n": 128, "max_tokens": 4000}
            asked = [asyncio.create_task(client.completions.create(**body)) for _ in range(3)]
            done, waiting = await asyncio.wait(asked, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            return done.pop().exception()

    error = asyncio.run(refused())
    assert isinstance(error, openai.RateLimitError)
    assert error.code == "rate_limit_exceeded"
    assert 1 <= int(error.response.headers["retry-after"]) <= 60
    assert chat(official).choices[0].finish_reason in ("stop", "length")


def test_a_cluster_that_isnt_ready_and_a_key_that_is_wrong(tc: Commands, tiny: Path) -> None:
    _, port, _ = tc.cluster(tiny, "--max-nodes", 1, "--api-key", "k-1")
    with official_client(port, key="k-2") as client, pytest.raises(openai.AuthenticationError) as unknown:
        chat(client)
    assert unknown.value.code == "invalid_api_key"
    with official_client(port, key="k-1") as client, pytest.raises(openai.APIStatusError) as early:
        chat(client)
    assert (early.value.status_code, early.value.type) == (503, "cluster_not_ready")


@pytest.mark.parametrize(("name", "cluster"), [("litellm", "served"), ("langchain", "served_last_stage")])
def test_other_clients_hold_a_conversation_call_tools_and_read_json(
    request: pytest.FixtureRequest, name: str, cluster: str
) -> None:
    port = request.getfixturevalue(cluster).api
    with official_client(port) as official:
        told = conversation(lambda messages: (chat(official, messages).choices[0].message.content, []))
    command = [sys.executable, str(PROGRAM), f"http://127.0.0.1:{port}/v1", name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ended.returncode == 0, ended.stderr
    talk, [[tool, arguments]], parsed, status = json.loads(ended.stdout.splitlines()[-1])
    assert talk == [[whole, whole] for whole, _ in told]
    assert tool == "paint"
    for painted in (arguments, parsed):
        assert painted in ({"colour": "red"}, {"colour": "blue"})
    assert status == 404
