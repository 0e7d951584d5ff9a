"""Bodies become calls, with OpenAI's defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster._engine.requests import Sampling
from truecluster._text import TextOptions
from truecluster.api import RequestError

from . import tables
from .body import parse_body
from .calls import ChatCall, CompletionCall, Prompt, Streaming
from .fields import Check, Fields, biases, boolean, integer, number, refuse, stop_strings, string
from .formats import response_format
from .tools import tool_use

MAX_CHOICES = 128
"""Answers that one request may ask for, over all its prompts; OpenAI's largest ``n``."""
_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1


def _top_k(name: str, value: Any) -> int:
    """Both 0 and -1 keep all: peers write either."""
    return max(integer(-1, _INT32)(name, value), 0)


_SAMPLING: Mapping[str, Check[Any]] = {
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_k": _top_k,
    "min_p": number(0, 1),
    "repetition_penalty": number(0.01, 100),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "logit_bias": biases,
    "seed": integer(-_INT64 - 1, _INT64),
}


def parse_completion(raw: bytes, defaults: Sampling) -> CompletionCall:
    """Raises `RequestError` naming the field. Blocking: a body may be large."""
    fields = Fields(parse_body(raw))
    model, prompts = fields.need("model", string), fields.need("prompt", _prompts)
    choices = _choices(fields, len(prompts))
    _only_best(fields, choices)
    max_tokens, echo = fields.take("max_tokens", integer(0, _INT32), None), fields.take("echo", boolean, False)
    logprobs = fields.take("logprobs", integer(0, 5), None)
    return CompletionCall(
        model=model,
        prompts=prompts,
        choices=choices,
        options=_options(fields, defaults, max_tokens, logprobs, echo),
        streaming=_streaming(fields),
        owner=_owner(fields),
        unknown=_rest(fields, tables.COMPLETION),
    )


def parse_chat(raw: bytes, defaults: Sampling) -> ChatCall:
    """As `parse_completion`; what is inside the messages is checked when they are rendered."""
    fields = Fields(parse_body(raw))
    model, messages = fields.need("model", string), fields.need("messages", _messages)
    return ChatCall(
        model=model,
        messages=messages,
        tools=tool_use(fields),
        choices=_choices(fields, 1),
        options=_options(fields, defaults, _chat_tokens(fields), _chat_logprobs(fields)),
        streaming=_streaming(fields),
        owner=_owner(fields),
        unknown=_rest(fields, tables.CHAT),
    )


def _owner(fields: Fields) -> str:
    old, new = fields.take("user", string, ""), fields.take("safety_identifier", string, "")
    return new or old


def _rest(fields: Fields, neutral: tables.Neutral) -> tuple[str, ...]:
    fields.accept(tables.HARMLESS)
    fields.refuse_unless(neutral, tables.INSTEAD)
    return fields.unknown()


def _options(
    fields: Fields, defaults: Sampling, max_tokens: int | None, logprobs: int | None, echo: bool = False
) -> TextOptions:
    given = {name: fields.take(name, check, getattr(defaults, name)) for name, check in _SAMPLING.items()}
    sampling = attrs.evolve(defaults, logprobs=logprobs, **given)
    stop: tuple[str, ...] = fields.take("stop", stop_strings, ())
    return TextOptions(max_tokens=max_tokens, stop=stop, sampling=sampling, echo=echo, grammar=response_format(fields))


def _choices(fields: Fields, prompts: int) -> int:
    choices = fields.take("n", integer(1, MAX_CHOICES), 1)
    if choices * prompts > MAX_CHOICES:
        asked = f"{prompts} prompts with 'n' {choices} ask for {choices * prompts} answers"
        raise RequestError(f"{asked}; a request may ask for {MAX_CHOICES}", "n")
    return choices


def _only_best(fields: Fields, choices: int) -> None:
    best_of = fields.take("best_of", integer(1, MAX_CHOICES), choices)
    if best_of != choices:
        raise RequestError(f"'best_of' {best_of} isn't supported unless it is 'n', here {choices}", "best_of")


def _streaming(fields: Fields) -> Streaming | None:
    asked, options = fields.take("stream", boolean, False), fields.inside("stream_options")
    if options is None:
        return Streaming() if asked else None
    if not asked:
        raise RequestError("'stream_options' needs 'stream' to be true; leave it out", "stream_options")
    options.refuse_unless(tables.STREAM_OPTIONS, tables.INSTEAD)
    return Streaming(include_usage=options.take("include_usage", boolean, False))


def _chat_tokens(fields: Fields) -> int | None:
    old = fields.take("max_tokens", integer(1, _INT32), None)
    new = fields.take("max_completion_tokens", integer(1, _INT32), None)
    if old is not None and new is not None and old != new:
        raise RequestError("'max_tokens' and 'max_completion_tokens' differ; give only the second", "max_tokens")
    return old if new is None else new


def _chat_logprobs(fields: Fields) -> int | None:
    asked, top = fields.take("logprobs", boolean, False), fields.take("top_logprobs", integer(0, 20), 0)
    if top and not asked:
        raise RequestError("'top_logprobs' needs 'logprobs' to be true", "top_logprobs")
    return top if asked else None


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
    if not 1 <= len(several) <= MAX_CHOICES:
        raise refuse(name, f"1 to {MAX_CHOICES} prompts")
    return tuple(item if isinstance(item, str) else tuple(item) for item in several)
