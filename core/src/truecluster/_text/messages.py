"""Chat messages as clients send them, brought into the form that templates expect."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs

from truecluster.api import RequestError

from .unicode import require_plain

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

NOT_TEXT = frozenset({"audio", "function_call", "refusal"})
"""What OpenAI's messages may hold, and no template reads."""

_READS_ARGUMENTS = re.compile(r"arguments\s*(\|\s*(tojson|items|dictsort)|\.items)")


@attrs.frozen(kw_only=True)
class Habits:
    """What a template expects: whether it knows the role ``developer``, and tool arguments as an object or as text."""

    developer: bool
    parsed_arguments: bool

    @classmethod
    def of(cls, template: str) -> Habits:
        """Read from the template's source."""
        return cls(developer="developer" in template, parsed_arguments=bool(_READS_ARGUMENTS.search(template)))


def normalise(messages: Any, habits: Habits) -> list[dict[str, Any]]:
    """Every message with a known role and ``content`` as text; a null field counts as absent.

    Several system messages are merged into the first. Raises `RequestError` naming the field, ``messages[0].role``.
    """
    if not isinstance(messages, (list, tuple)) or not messages:
        raise RequestError("'messages' must be a list of at least one message", "messages")
    return _merge_system([_message(message, f"messages[{i}]", habits) for i, message in enumerate(messages)])


def _message(message: Any, path: str, habits: Habits) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise RequestError(f"'{path}' must be an object with role and content", path)
    given = {key: value for key, value in message.items() if value is not None}
    role = _role(given.get("role"), path, habits)
    turn = {**given, "role": role, "content": _content(given.get("content"), path, role)}
    if not isinstance(given.get("name", ""), str):
        raise RequestError(f"'{path}.name' must be a string", f"{path}.name")
    for name in NOT_TEXT & given.keys():
        raise RequestError(f"'{path}.{name}' isn't supported; {path} may have content and tool_calls", f"{path}.{name}")
    if "tool_calls" in given:
        turn["tool_calls"] = _tool_calls(given["tool_calls"], f"{path}.tool_calls", habits)
    return turn


def _role(role: Any, path: str, habits: Habits) -> str:
    if not isinstance(role, str) or role not in ROLES:
        raise RequestError(f"'{path}.role' must be one of {', '.join(ROLES)}", f"{path}.role")
    return "system" if role == "developer" and not habits.developer else role


def _content(content: Any, path: str, role: str) -> str:
    if isinstance(content, str):
        return content
    if role == "assistant" and (content is None or content == []):
        return ""
    if not isinstance(content, (list, tuple)) or not content:
        raise RequestError(f"'{path}.content' must be a string or a list of text parts", f"{path}.content")
    return "\n".join(_part(part, f"{path}.content[{i}]") for i, part in enumerate(content))


def _part(part: Any, path: str) -> str:
    if not isinstance(part, Mapping) or part.get("type") != "text":
        raise RequestError(f"'{path}' must be of type text; this model reads nothing else", path)
    if not isinstance(part.get("text"), str):
        raise RequestError(f"'{path}.text' must be a string", f"{path}.text")
    return str(part["text"])


def _tool_calls(calls: Any, path: str, habits: Habits) -> list[dict[str, Any]]:
    if not isinstance(calls, (list, tuple)):
        raise RequestError(f"'{path}' must be a list", path)
    return [_tool_call(call, f"{path}[{i}]", habits) for i, call in enumerate(calls)]


def _tool_call(call: Any, path: str, habits: Habits) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError(f"'{path}' must be an object with a function that has a name", path)
    if not isinstance(function.get("arguments"), str):
        raise RequestError(f"'{path}.function.arguments' must be a string of JSON", f"{path}.function.arguments")
    return {**call, "function": {**function, "arguments": _arguments(function["arguments"], habits)}}


def _arguments(text: str, habits: Habits) -> Any:
    """The object behind ``text`` where the template writes it as JSON itself; a model's broken JSON stays text."""
    if not habits.parsed_arguments:
        return text
    try:
        value = json.loads(text)
        require_plain(value, "")
    except (ValueError, RecursionError, RequestError):
        return text
    return value


def _merge_system(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    system = [turn for turn in turns if turn["role"] == "system"]
    if len(system) < 2:
        return turns
    merged = {**system[0], "content": "\n\n".join(turn["content"] for turn in system)}
    kept = [merged if turn is system[0] else turn for turn in turns]
    return [turn for turn in kept if turn is merged or turn["role"] != "system"]
