"""The objects that calls are written as, read."""

from __future__ import annotations

from .json_texts import decode, parts
from .tools import CallRules, ToolCall


def calls_in(text: str, rules: CallRules) -> list[ToolCall]:
    """One or several. Raises `ValueError` or `RecursionError` where the text isn't that."""
    objects = parts(text) if isinstance(decode(text), list) else [text]
    if not objects:
        raise ValueError("no call")
    return [_call(each, rules) for each in objects]


def _call(text: str, rules: CallRules) -> ToolCall:
    value = decode(text)
    if not isinstance(value, dict):
        raise ValueError("a call is an object")
    name, arguments = value.get("name"), value.get(rules.form.arguments)
    if not isinstance(name, str) or name not in rules.names or not isinstance(arguments, (dict, type(None))):
        raise ValueError("no call of a function that was given")
    texts = parts(text)
    written = {decode(key): member for key, member in zip(texts[::2], texts[1::2], strict=True)}
    return ToolCall(name=name, arguments="{}" if arguments is None else written[rules.form.arguments])
