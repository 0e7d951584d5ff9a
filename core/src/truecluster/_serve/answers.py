"""Answers in OpenAI's shape, as plain data."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from truecluster._text import Completion

Answer = Callable[[str, Sequence[Completion]], dict[str, Any]]
"""(model name, one completion a choice) → the response body."""

_FINGERPRINT = f"truecluster-{version('truecluster')}"


def _usage(completions: Sequence[Completion]) -> dict[str, int]:
    prompt = sum(completion.prompt_tokens for completion in completions)
    generated = sum(completion.completion_tokens for completion in completions)
    return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}


def _answer(
    prefix: str, kind: str, model: str, choices: list[dict[str, Any]], completions: Sequence[Completion]
) -> dict[str, Any]:
    return {
        "id": f"{prefix}-{secrets.token_hex(16)}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": _FINGERPRINT,
        "choices": choices,
        "usage": _usage(completions),
    }


def _choice(index: int, completion: Completion) -> dict[str, Any]:
    return {"index": index, "logprobs": None, "finish_reason": completion.finish_reason}


def completion_answer(model: str, completions: Sequence[Completion]) -> dict[str, Any]:
    """A ``CreateCompletionResponse``."""
    choices = [{**_choice(i, completion), "text": completion.text} for i, completion in enumerate(completions)]
    return _answer("cmpl", "text_completion", model, choices, completions)


def chat_answer(model: str, completions: Sequence[Completion]) -> dict[str, Any]:
    """A ``CreateChatCompletionResponse``."""
    choices = [{**_choice(i, completion), "message": _message(completion)} for i, completion in enumerate(completions)]
    return _answer("chatcmpl", "chat.completion", model, choices, completions)


def _message(completion: Completion) -> dict[str, Any]:
    return {"role": "assistant", "content": completion.text, "refusal": None}


def model_answer(name: str, created: int) -> dict[str, Any]:
    """A ``Model``."""
    return {"id": name, "object": "model", "created": created, "owned_by": "truecluster"}
