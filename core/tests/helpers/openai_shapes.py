"""Whether a body has the shape that OpenAI's own description of its API gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

_FILE = Path(__file__).parent.parent / "serve" / "openai_schemas.json"
_COMPONENTS = json.loads(_FILE.read_text())["components"]


def validate(body: Any, schema: str) -> None:
    """Raises where ``body`` breaks the schema of that name."""
    whole = {"$ref": f"#/components/schemas/{schema}", "components": _COMPONENTS}
    jsonschema.Draft202012Validator(whole).validate(body)


def validate_completion_chunk(chunk: dict[str, Any]) -> None:
    """The description has no schema for these: they are responses in which what isn't known yet is null."""
    known = {key: value for key, value in chunk.items() if value is not None}
    choices = [{**choice, "finish_reason": choice["finish_reason"] or "stop"} for choice in chunk["choices"]]
    validate({**known, "choices": choices}, "CreateCompletionResponse")
