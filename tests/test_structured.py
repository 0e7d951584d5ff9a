"""Answers held to JSON, over real nodes: what comes is checked by jsonschema and pydantic, which know no grammar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import jsonschema
import openai
import pytest
from commands import Commands, Served
from pydantic import BaseModel, Field
from schemas import BOUNDED

FORMAT = {"type": "json_schema", "json_schema": {"name": "bounded", "strict": True, "schema": BOUNDED}}
MESSAGES: list[Any] = [{"role": "user", "content": "Hello"}]


def started(commands: Commands, model: Path, name: str, *options: object) -> str:
    """The address of an API over two workers whose last one samples."""
    run = ("run", "--model", model, "--nodes", 2, "--threads", 1, "--head", "last-stage", *options)
    command = commands.start(*run, "--serve", "--api-port", 0, "--served-model-name", name)
    port = command.wait_for(r"serving .* on http://127\.0\.0\.1:(\d+)/v1", timeout=120)[1]
    command.wait_for("^ready: ", timeout=120)
    return f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="module")
def at_coordinator(served: Served) -> Iterator[openai.OpenAI]:
    """A random model whose head is at the coordinator."""
    with openai.OpenAI(base_url=f"http://127.0.0.1:{served.api}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with Commands(tmp_path_factory.mktemp("structured")) as commands:
        yield commands


@pytest.fixture(scope="module")
def at_last_stage(commands: Commands, tiny: Path) -> Iterator[openai.OpenAI]:
    """The same model, sampled by a worker."""
    with openai.OpenAI(base_url=started(commands, tiny, "tiny"), api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def smollm2(commands: Commands, smollm2_gguf: Path) -> Iterator[openai.OpenAI]:
    """A real model, sampled by a worker."""
    url = started(commands, smollm2_gguf, "smol", "--quant", "native")
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, **body: Any) -> Any:
    given = {"model": "tiny", "messages": MESSAGES, "response_format": FORMAT, "max_tokens": 300, **body}
    return client.chat.completions.create(**given)


def answers(response: Any) -> list[tuple[str, str]]:
    return [(choice.message.content, choice.finish_reason) for choice in response.choices]


def test_random_weights_always_write_what_the_schema_holds_for(
    at_coordinator: openai.OpenAI, at_last_stage: openai.OpenAI
) -> None:
    """30 answers of a model that knows nothing, at a high temperature, and the same wherever its head is."""
    body: dict[str, Any] = {"n": 30, "seed": 7, "temperature": 1.5}
    found = answers(chat(at_coordinator, **body))
    for text, reason in found:
        jsonschema.validate(json.loads(text), BOUNDED)
        assert reason == "stop"
    assert len(set(found)) == 30
    assert answers(chat(at_last_stage, **body)) == found


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 0},
        {"temperature": 1.5, "top_p": 0.9, "frequency_penalty": 1.5, "extra_body": {"repetition_penalty": 1.3}},
        {"temperature": 1, "logit_bias": {str(ord("}")): -100, str(ord("\\")): 100}},
    ],
    ids=["greedy", "penalties", "bias"],
)
def test_a_stream_joined_is_the_answer_with_all_that_sampling_does(at_last_stage: openai.OpenAI, more: Any) -> None:
    body = {"seed": 3, "logprobs": True, "top_logprobs": 3, **more}
    (whole,) = chat(at_last_stage, **body).choices
    jsonschema.validate(json.loads(whole.message.content), BOUNDED)
    text, tokens, reasons = "", [], []
    for chunk in chat(at_last_stage, **body, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            tokens += choice.logprobs.content if choice.logprobs else []
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert (text, reasons) == (whole.message.content, ["stop"])
    assert tokens == whole.logprobs.content
    assert "".join(token.token for token in tokens) == text
    assert all(token.logprob <= token.top_logprobs[0].logprob for token in tokens)


def test_others_notice_nothing(at_coordinator: openai.OpenAI) -> None:
    """Tokens of requests that nothing constrains are the same beside those that are."""

    def plain(seed: int) -> str:
        body = {"prompt": "Hello", "max_tokens": 60, "temperature": 0.8, "seed": seed}
        return at_coordinator.completions.create(model="tiny", **body).choices[0].text

    alone = [plain(seed) for seed in range(3)]
    with ThreadPoolExecutor(4) as pool:
        constrained = pool.submit(chat, at_coordinator, n=5, seed=1, temperature=1)
        together = list(pool.map(plain, range(3)))
        for text, _ in answers(constrained.result(60)):
            jsonschema.validate(json.loads(text), BOUNDED)
    assert together == alone


def test_any_object_is_cut_where_tokens_or_stop_strings_end_it(at_coordinator: openai.OpenAI) -> None:
    body: dict[str, Any] = {"response_format": {"type": "json_object"}, "seed": 5, "temperature": 1.5}
    body["logit_bias"] = {str(ord("}")): -100}  # the empty object would be an answer, too
    ((text, reason),) = answers(chat(at_coordinator, **body, max_tokens=20))
    assert (text[0], len(text), reason) == ("{", 20, "length")
    stopped = answers(chat(at_coordinator, **body, max_tokens=20, stop=text[4:6]))
    assert stopped == [(text[: text.index(text[4:6])], "stop")]
    raw = {"prompt": "A", "max_tokens": 20, "extra_body": {"response_format": {"type": "json_object"}}}
    assert at_coordinator.completions.create(model="tiny", **raw).choices[0].text[0] == "{"


def test_a_schema_that_can_not_be_enforced_is_named(at_coordinator: openai.OpenAI) -> None:
    wrong = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(openai.BadRequestError, match="uniqueItems") as caught:
        chat(at_coordinator, response_format=wrong)
    assert caught.value.param == "response_format.json_schema.schema"


class Person(BaseModel):
    """As pydantic describes it to the client, which makes a strict schema of it."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=150)
    kind: Literal["adult", "child"]
    friends: list[str] = Field(max_length=2)


def test_openais_client_parses_what_a_real_model_says(smollm2: openai.OpenAI) -> None:
    question: list[Any] = [{"role": "user", "content": "Who is Bob, 31 years old, with his friends Ann and Joe? JSON."}]
    body: dict[str, Any] = {"model": "smol", "messages": question, "max_tokens": 150, "temperature": 0}
    parsed = smollm2.chat.completions.parse(**body, response_format=Person).choices[0]
    assert parsed.finish_reason == "stop"
    assert isinstance(parsed.message.parsed, Person)
    with smollm2.chat.completions.stream(**body, response_format=Person) as events:
        final = events.get_final_completion().choices[0].message
    assert final.parsed == parsed.message.parsed


def test_a_real_model_s_answers_are_json_at_any_temperature(smollm2: openai.OpenAI) -> None:
    found = chat(smollm2, model="smol", n=4, seed=1, temperature=1.5)
    for text, reason in answers(found):
        jsonschema.validate(json.loads(text), BOUNDED)
        assert reason == "stop"
