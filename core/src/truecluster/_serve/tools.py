"""``tools``, ``tool_choice``, ``parallel_tool_calls``: which tools a model is shown, and what it must do with them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from truecluster._text import Grammar, Tool, ToolUse
from truecluster.api import RequestError

from .fields import Fields, boolean, identifier, mapping, one_of, refuse, string

MAX_TOOLS = 128
"""As many as OpenAI takes."""
TRIAL_SECONDS = 20.0
"""For the schemas of all strict tools of a request, each of which is bounded by itself."""


def tool_use(fields: Fields) -> ToolUse | None:
    """``None`` where no tool may be called. A tool that may not be called isn't shown to the model either.

    Raises `RequestError` naming the field.
    """
    tools, single = _tools(fields), not fields.take("parallel_tool_calls", boolean, True)
    choice = fields.word_or_inside("tool_choice", ("none", "auto", "required"))
    if isinstance(choice, Fields):
        return _chosen(choice, tools, single)
    return _any_of(tools, choice or "auto", single)


def _tools(fields: Fields) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    given = fields.each("tools")
    if len(given) > MAX_TOOLS:
        raise RequestError(f"'tools' has {len(given)} tools; give at most {MAX_TOOLS}", "tools")
    until = time.monotonic() + TRIAL_SECONDS
    for i, one in enumerate(given):
        if time.monotonic() > until:
            raise RequestError(f"the first {i} of 'tools' took long enough; make fewer of them strict", "tools")
        tool = _tool(one)
        if tool.name in tools:
            raise RequestError(f"'tools' has two functions with the name {tool.name!r}", f"tools[{i}].function.name")
        tools[tool.name] = tool
    return tools


def _tool(given: Fields) -> Tool:
    given.need("type", one_of("function"))
    function = given.need_inside("function")
    strict = function.take("strict", boolean, False)
    return Tool(
        name=function.need("name", identifier),
        description=function.take("description", string, None),
        strict=strict,
        **function.given("parameters", _strict_schema if strict else _schema),
    )


def _schema(name: str, value: Any) -> Mapping[str, Any]:
    schema = mapping(name, value)
    if schema.get("type", "object") != "object":
        raise refuse(f"{name}.type", "'object'")
    return schema


def _strict_schema(name: str, value: Any) -> Mapping[str, Any]:
    schema = _schema(name, value)
    Grammar.json_schema(schema, name)
    return schema


def _any_of(tools: dict[str, Tool], mode: str, single: bool) -> ToolUse | None:
    if mode == "required" and not tools:
        raise RequestError("'tool_choice' is 'required', but there are no 'tools'", "tool_choice")
    shown = tuple(tools.values())
    return ToolUse(tools=shown, required=mode == "required", single=single) if tools and mode != "none" else None


def _chosen(choice: Fields, tools: dict[str, Tool], single: bool) -> ToolUse | None:
    if choice.need("type", one_of("function", "allowed_tools")) == "function":
        return ToolUse(tools=(_named(choice, tools),), required=True, single=True)
    allowed = choice.need_inside("allowed_tools")
    mode, listed = allowed.need("mode", one_of("auto", "required")), allowed.each("tools")
    return _any_of({tool.name: tool for tool in (_referred(one, tools) for one in listed)}, mode, single)


def _referred(choice: Fields, tools: dict[str, Tool]) -> Tool:
    choice.need("type", one_of("function"))
    return _named(choice, tools)


def _named(choice: Fields, tools: dict[str, Tool]) -> Tool:
    name = choice.need_inside("function").need("name", string)
    if name not in tools:
        raise RequestError(f"'tool_choice' names {name[:64]!r}, which isn't among 'tools'", "tool_choice")
    return tools[name]
