"""How each endpoint's answers look, whole and in chunks, as plain data of OpenAI's schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from truecluster._text import Scored

from .logprobs import Piece, chat_logprobs, completion_logprobs


@attrs.frozen(kw_only=True)
class Shape:
    """What differs between the endpoints. ``first`` and ``last`` are pieces of a stream that carry no text."""

    prefix: str
    whole_object: str
    chunk_object: str
    whole: Callable[[str], Piece]
    chunk: Callable[[str], Piece]
    logprobs: Callable[[Sequence[Scored]], Piece]
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
    logprobs=chat_logprobs,
    first={"delta": {"role": "assistant", "content": "", "refusal": None}},
    last={"delta": {}},
)
"""``CreateChatCompletionResponse`` and ``CreateChatCompletionStreamResponse``."""
