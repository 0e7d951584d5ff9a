"""What an answer is to look like: ``response_format``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truecluster._text import Grammar
from truecluster.api import RequestError

from .fields import Fields, boolean, identifier, mapping, refuse, string

_KINDS = ("text", "json_object", "json_schema")


def response_format(fields: Fields) -> Grammar | None:
    """The grammar that the field asks for. Raises `RequestError` naming what can't be enforced."""
    given = fields.inside("response_format")
    kind = "text" if given is None else given.need("type", _kind)
    if given is None or kind == "text":
        return None
    return _json_schema(given) if kind == "json_schema" else Grammar.json_object()


def _json_schema(given: Fields) -> Grammar:
    """``strict`` or not, the schema is enforced; without one it is any object."""
    inside = given.inside("json_schema")
    if inside is None:
        raise RequestError("'response_format.json_schema' is missing", "response_format.json_schema")
    inside.need("name", identifier)
    inside.take("description", string, None)
    inside.take("strict", boolean, None)
    schema: Mapping[str, Any] = inside.take("schema", mapping, {"type": "object"})
    return Grammar.json_schema(schema, "response_format.json_schema.schema")


def _kind(name: str, value: Any) -> str:
    if value not in _KINDS:
        raise refuse(name, f"one of {', '.join(_KINDS)}")
    return str(value)
