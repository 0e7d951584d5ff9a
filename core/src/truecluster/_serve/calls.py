"""Bodies become calls: frozen, checked, with OpenAI's defaults filled in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import attrs

from truecluster._engine.requests import Sampling
from truecluster._text import TextModel, TextOptions, TextRequest
from truecluster.api import RequestError

from . import tables
from .body import parse_body
from .fields import Fields, integer, number, refuse, stop_strings, string

MAX_PROMPTS = 128
_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1

Prompt = str | tuple[int, ...]


@attrs.frozen(kw_only=True)
class Call(ABC):
    """What both endpoints have; ``unknown`` are the fields that no schema knows."""

    model: str
    options: TextOptions
    unknown: tuple[str, ...]

    @abstractmethod
    def prepare(self, text: TextModel) -> list[TextRequest]:
        """One request for each choice of the answer. Blocking."""


@attrs.frozen(kw_only=True)
class CompletionCall(Call):
    """``POST /v1/completions``."""

    prompts: tuple[Prompt, ...]

    def prepare(self, text: TextModel) -> list[TextRequest]:
        return [text.prepare_completion(prompt, self.options) for prompt in self.prompts]


@attrs.frozen(kw_only=True)
class ChatCall(Call):
    """``POST /v1/chat/completions``."""

    messages: list[Any]

    def prepare(self, text: TextModel) -> list[TextRequest]:
        return [text.prepare_chat(self.messages, self.options)]


def parse_completion(raw: bytes) -> CompletionCall:
    """Raises `RequestError` naming the field. Blocking: a body may be large."""
    fields = Fields(parse_body(raw))
    model, prompts = fields.need("model", string), fields.need("prompt", _prompts)
    options = _options(fields, fields.take("max_tokens", integer(0, _INT32), None))
    return CompletionCall(model=model, prompts=prompts, options=options, unknown=_rest(fields, tables.COMPLETION))


def parse_chat(raw: bytes) -> ChatCall:
    """As `parse_completion`; what is inside the messages is checked when they are rendered."""
    fields = Fields(parse_body(raw))
    model, messages = fields.need("model", string), fields.need("messages", _messages)
    options = _options(fields, _chat_tokens(fields))
    return ChatCall(model=model, messages=messages, options=options, unknown=_rest(fields, tables.CHAT))


def _rest(fields: Fields, neutral: tables.Neutral) -> tuple[str, ...]:
    fields.accept(tables.HARMLESS)
    fields.refuse_unless(neutral)
    return fields.unknown()


def _options(fields: Fields, max_tokens: int | None) -> TextOptions:
    sampling = Sampling(
        temperature=fields.take("temperature", number(0, 2), 1.0),
        top_p=fields.take("top_p", number(0, 1), 1.0),
        seed=fields.take("seed", integer(-_INT64 - 1, _INT64), None),
    )
    return TextOptions(max_tokens=max_tokens, stop=fields.take("stop", stop_strings, ()), sampling=sampling)


def _chat_tokens(fields: Fields) -> int | None:
    old = fields.take("max_tokens", integer(1, _INT32), None)
    new = fields.take("max_completion_tokens", integer(1, _INT32), None)
    if old is not None and new is not None and old != new:
        raise RequestError("'max_tokens' and 'max_completion_tokens' differ; give only the second", "max_tokens")
    return old if new is None else new


def _messages(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise refuse(name, "a list of at least one message")
    return value


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int for item in value)


def _prompts(name: str, value: Any) -> tuple[Prompt, ...]:
    several = [value] if isinstance(value, str) or _is_ids(value) else value
    if not isinstance(several, list) or not all(isinstance(item, str) or _is_ids(item) for item in several):
        raise refuse(name, "a string, a list of token ids, or a list of either")
    if not 1 <= len(several) <= MAX_PROMPTS:
        raise refuse(name, f"1 to {MAX_PROMPTS} prompts")
    return tuple(item if isinstance(item, str) else tuple(item) for item in several)
