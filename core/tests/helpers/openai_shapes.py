"""Whether a body has the shape that OpenAI's own description of its API gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

_FILE = Path(__file__).parent.parent / "serve" / "openai_schemas.json"
_COMPONENTS = json.loads(_FILE.read_text())["components"]


def counted(prompt: int, generated: int, cached: int = 0) -> dict[str, Any]:
    """The usage of an answer."""
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated, **details}


def validate(body: Any, schema: str) -> None:
    """Raises where ``body`` breaks the schema of that name.

    But for one thing: of a token that nothing comes before OpenAI itself answers null, which its schema forgets.
    """
    if schema == "CreateCompletionResponse":
        body = {**body, "choices": [_without_first(choice) for choice in body["choices"]]}
    whole = {"$ref": f"#/components/schemas/{schema}", "components": _COMPONENTS}
    jsonschema.Draft202012Validator(whole).validate(body)


def _without_first(choice: dict[str, Any]) -> dict[str, Any]:
    told = choice["logprobs"]
    if not told or told["token_logprobs"][:1] != [None]:
        return choice
    assert told["top_logprobs"][0] is None
    return {**choice, "logprobs": {name: values[1:] for name, values in told.items()}}


def validate_completion_chunk(chunk: dict[str, Any]) -> None:
    """The description has no schema for these: they are responses in which what isn't known yet is null."""
    known = {key: value for key, value in chunk.items() if value is not None}
    choices = [{**choice, "finish_reason": choice["finish_reason"] or "stop"} for choice in chunk["choices"]]
    validate({**known, "choices": choices}, "CreateCompletionResponse")
