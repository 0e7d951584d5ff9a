"""How each endpoint's answers look, whole and in chunks, as plain data of OpenAI's schemas."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from truecluster._text import Completion, Scored, ToolCall

from .logprobs import Piece, chat_logprobs, completion_logprobs


@attrs.frozen(kw_only=True)
class Shape:
    """What differs between the endpoints. ``first`` and ``last`` are pieces of a stream that carry no text.

    ``calls`` are the pieces of a call, which is the answer's ``index``-th.
    """

    prefix: str
    whole_object: str
    chunk_object: str
    whole: Callable[[Completion], Piece]
    chunk: Callable[[str], Piece]
    calls: Callable[[int, ToolCall], Sequence[Piece]]
    logprobs: Callable[[Sequence[Scored]], Piece]
    first: Piece | None
    last: Piece


def _whole_text(answer: Completion) -> Piece:
    return _text(answer.text)


def _text(text: str) -> Piece:
    return {"text": text}


def _no_calls(index: int, call: ToolCall) -> Sequence[Piece]:
    raise AssertionError("a raw prompt's answer has no calls")


def _message(answer: Completion) -> Piece:
    content = answer.text or None if answer.calls else answer.text
    calls = [_call(call.name, call.arguments) for call in answer.calls]
    made = {"tool_calls": calls} if calls else {}
    return {"message": {"role": "assistant", "content": content, "refusal": None, **made}}


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": _call_id(), "type": "function", "function": {"name": name, "arguments": arguments}}


def _call_id() -> str:
    """Nine letters and digits: Mistral's templates take nothing else."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


def _call_deltas(index: int, call: ToolCall) -> Sequence[Piece]:
    """As OpenAI streams it: who is called, then the arguments."""
    deltas = {**_call(call.name, ""), "index": index}, {"index": index, "function": {"arguments": call.arguments}}
    return [{"delta": {"tool_calls": [delta]}} for delta in deltas]


def _delta(text: str) -> Piece:
    return {"delta": {"content": text}}


COMPLETION = Shape(
    prefix="cmpl",
    whole_object="text_completion",
    chunk_object="text_completion",
    whole=_whole_text,
    chunk=_text,
    calls=_no_calls,
    logprobs=completion_logprobs,
    first=None,
    last={"text": ""},
)
"""``CreateCompletionResponse``, also in streams."""

CHAT = Shape(
    prefix="chatcmpl",
    whole_object="chat.completion",
    chunk_object="chat.completion.chunk",
    whole=_message,
    chunk=_delta,
    calls=_call_deltas,
    logprobs=chat_logprobs,
    first={"delta": {"role": "assistant", "content": "", "refusal": None}},
    last={"delta": {}},
)
"""``CreateChatCompletionResponse`` and ``CreateChatCompletionStreamResponse``."""
