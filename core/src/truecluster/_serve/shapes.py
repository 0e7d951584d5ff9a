"""How each endpoint's answers look, whole and in chunks, as plain data of OpenAI's schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

Piece = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Shape:
    """What differs between the endpoints. ``first`` and ``last`` are pieces of a stream that carry no text."""

    prefix: str
    whole_object: str
    chunk_object: str
    whole: Callable[[str], Piece]
    chunk: Callable[[str], Piece]
    first: Piece | None
    last: Piece


def _text(text: str) -> Piece:
    return {"text": text}


def _message(text: str) -> Piece:
    return {"message": {"role": "assistant", "content": text, "refusal": None}}


def _delta(text: str) -> Piece:
    return {"delta": {"content": text}}


COMPLETION = Shape(
    prefix="cmpl",
    whole_object="text_completion",
    chunk_object="text_completion",
    whole=_text,
    chunk=_text,
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
    first={"delta": {"role": "assistant", "content": "", "refusal": None}},
    last={"delta": {}},
)
"""``CreateChatCompletionResponse`` and ``CreateChatCompletionStreamResponse``."""
