"""``response_format``: what is refused, and which answers the engine is told to allow."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from openai_shapes import validate

from truecluster._engine.requests import Constraint

COMPLETION = ("completions", {"model": "tiny", "prompt": "abc"})
CHAT = ("chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]})
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
END = 128


def schema(**changes: Any) -> dict[str, Any]:
    inner = {"name": "answer", "schema": SCHEMA, **changes}
    return {"type": "json_schema", "json_schema": {name: value for name, value in inner.items() if value != "absent"}}


def ask(client: httpx.Client, endpoint: tuple[str, dict[str, Any]], given: Any, **more: Any) -> httpx.Response:
    return client.post(f"/v1/{endpoint[0]}", json={**endpoint[1], "response_format": given, **more})


def ends(constraint: Constraint, text: str) -> bool:
    """Whether the answer may be this text; a token is a letter here."""
    for letter in text.encode():
        if not constraint.mask()[letter // 8] >> letter % 8 & 1:
            return False
        constraint.accept(letter)
    return bool(constraint.mask()[END // 8] >> END % 8 & 1)


@pytest.mark.parametrize("endpoint", [COMPLETION, CHAT], ids=["completions", "chat"])
@pytest.mark.parametrize(
    ("given", "yes", "no"),
    [
        ({"type": "json_object"}, ["{}", '{"b": [1]}'], ["[]", "Hello"]),
        (schema(), ['{"a": 1}', '{"a":-20}'], ["{}", '{"a": "x"}', '{"a": 1, "b": 2}']),
        (schema(strict=True, description="An answer."), ['{"a": 1}'], ["{}"]),
        (schema(strict=False), ['{"a": 1}'], ["{}"]),
        (schema(schema="absent"), ["{}", '{"b": 1}'], ["[]"]),
        (schema(schema=None, strict=None, description=None), ["{}"], ["[]"]),
        (schema(name="A-b_9" + "x" * 59, schema={}), ["[]", "1", "{}"], ["Hello"]),
    ],
)
def test_the_engine_hears_what_may_come(
    client: httpx.Client, running: Any, endpoint: Any, given: Any, yes: list[str], no: list[str]
) -> None:
    response = ask(client, endpoint, given)
    assert response.status_code == 200
    assert "x-truecluster-warning" not in response.headers
    (asked,) = running.state.engine.asked
    assert [ends(asked.constraint(), text) for text in yes + no] == [True] * len(yes) + [False] * len(no)


@pytest.mark.parametrize("endpoint", [COMPLETION, CHAT], ids=["completions", "chat"])
@pytest.mark.parametrize("given", [None, {"type": "text"}])
def test_text_may_be_anything(client: httpx.Client, running: Any, endpoint: Any, given: Any) -> None:
    assert ask(client, endpoint, given).status_code == 200
    assert running.state.engine.asked[0].constraint is None


def test_every_choice_has_the_constraint(client: httpx.Client, running: Any) -> None:
    assert ask(client, CHAT, schema(), n=3).status_code == 200
    assert [ends(asked.constraint(), '{"a": 1}') for asked in running.state.engine.asked] == [True] * 3


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("json", ""),
        ({}, ".type"),
        ({"type": "xml"}, ".type"),
        ({"type": ["text"]}, ".type"),
        ({"type": "json_schema"}, ".json_schema"),
        ({"type": "json_schema", "json_schema": SCHEMA}, ".json_schema.name"),
        ({"type": "json_schema", "json_schema": [1]}, ".json_schema"),
        (schema(name=""), ".json_schema.name"),
        (schema(name="two words"), ".json_schema.name"),
        (schema(name="x" * 65), ".json_schema.name"),
        (schema(name="x\n"), ".json_schema.name"),
        (schema(name=5), ".json_schema.name"),
        (schema(description=5), ".json_schema.description"),
        (schema(strict="yes"), ".json_schema.strict"),
        (schema(schema=[]), ".json_schema.schema"),
        (schema(schema={"type": "strin"}), ".json_schema.schema"),
        (schema(schema={"type": "array", "uniqueItems": True}), ".json_schema.schema"),
        (schema(schema={"type": "string", "pattern": "("}), ".json_schema.schema"),
        (schema(schema={"$ref": "#/$defs/none"}), ".json_schema.schema"),
        (schema(schema={"enum": ["x" * 300_000]}), ".json_schema.schema"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_what_can_not_be_honoured_is_named(client: httpx.Client, running: Any, given: Any, param: str) -> None:
    """In one line, without a stack, and before anything is asked of the engine."""
    for endpoint in (COMPLETION, CHAT):
        response = ask(client, endpoint, given)
        validate(response.json(), "ErrorResponse")
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, "response_format" + param)
        assert "\n" not in error["message"]
        assert len(error["message"]) < 400
    assert not running.state.engine.asked


def test_keys_that_no_schema_knows_are_told(client: httpx.Client) -> None:
    response = ask(client, CHAT, {**schema(colour=1), "more": 2})
    assert response.status_code == 200
    warning = response.headers["x-truecluster-warning"]
    assert "response_format.more" in warning
    assert "response_format.json_schema.colour" in warning
