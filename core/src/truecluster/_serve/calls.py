"""What the endpoints are asked: frozen and checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import attrs

from truecluster._text import TextModel, TextOptions, TextRequest, ToolUse

Prompt = str | tuple[int, ...]


@attrs.frozen(kw_only=True)
class Streaming:
    """How an answer is streamed."""

    include_usage: bool = False


@attrs.frozen(kw_only=True)
class Call(ABC):
    """What both endpoints have. ``choices`` answers to each prompt; ``unknown`` are the fields that no schema knows.

    ``owner`` is who asks, empty where the body doesn't say; owners take turns where requests have to wait.
    """

    model: str
    choices: int
    options: TextOptions
    streaming: Streaming | None
    unknown: tuple[str, ...]
    owner: str = ""

    def prepare(self, text: TextModel) -> list[TextRequest]:
        """One request for each choice of the answer, prompt by prompt. Blocking."""
        return [choice for request in self._requests(text) for choice in request.choices(self.choices, self.owner)]

    @abstractmethod
    def _requests(self, text: TextModel) -> list[TextRequest]:
        """One for each prompt."""


@attrs.frozen(kw_only=True)
class CompletionCall(Call):
    """``POST /v1/completions``."""

    prompts: tuple[Prompt, ...]

    def _requests(self, text: TextModel) -> list[TextRequest]:
        return [text.prepare_completion(prompt, self.options) for prompt in self.prompts]


@attrs.frozen(kw_only=True)
class ChatCall(Call):
    """``POST /v1/chat/completions``."""

    messages: list[Any]
    tools: ToolUse | None

    def _requests(self, text: TextModel) -> list[TextRequest]:
        return [text.prepare_chat(self.messages, self.options, self.tools)]
