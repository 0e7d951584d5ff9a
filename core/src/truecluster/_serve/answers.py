"""Answers in OpenAI's shape, as plain data."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from itertools import compress
from typing import Any

from truecluster._text import AnswerEnd, Completion, TextRequest

from .logprobs import Piece
from .shapes import Shape
from .state import ServeState

_FINGERPRINT = f"truecluster-{version('truecluster')}"


def usage(requests: Sequence[TextRequest], cached: Iterable[int], generated: int) -> dict[str, Any]:
    """A ``CompletionUsage``; a prompt that is answered in several ways counts once.

    ``cached`` has for each request how many tokens of its prompt didn't go through the model.
    """
    first = [request.tokens.choice == 0 for request in requests]
    prompt = sum(len(request.tokens.prompt) for request in compress(requests, first))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": sum(compress(cached, first))},
    }


def heading(shape: Shape, kind: str, model: str) -> dict[str, Any]:
    """What an answer begins with, the same in all chunks of a stream."""
    return {
        "id": f"{shape.prefix}-{secrets.token_hex(16)}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": _FINGERPRINT,
    }


def choice(index: int, piece: Piece, logprobs: Piece | None, reason: AnswerEnd | None) -> dict[str, Any]:
    """One of an answer's choices, whole or a piece of it."""
    return {"index": index, **piece, "logprobs": logprobs, "finish_reason": reason}


def answer(shape: Shape, model: str, requests: Sequence[TextRequest], done: Sequence[Completion]) -> dict[str, Any]:
    """The whole response to ``requests``, one completion for each."""
    asked = requests[0].tokens.sampling.logprobs is not None
    return {
        **heading(shape, shape.whole_object, model),
        "choices": [
            choice(i, shape.whole(one), shape.logprobs(one.scores) if asked else None, one.finish_reason)
            for i, one in enumerate(done)
        ],
        "usage": usage(requests, [one.cached_tokens for one in done], sum(one.completion_tokens for one in done)),
    }


def model_answer(state: ServeState, name: str) -> dict[str, Any]:
    """A ``Model``; while it answers, with its context in tokens by vLLM's name, which many clients read."""
    context = {"max_model_len": state.text.context} if state.ready().ready else {}
    return {"id": name, "object": "model", "created": state.created, "owned_by": "truecluster", **context}
