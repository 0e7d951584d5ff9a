"""Text: tokenizers, chat templates, stop strings and streams of text. Knows requests and events, but no node."""

from .defaults import GenerationDefaults
from .grammar import Grammar
from .model import TextModel
from .requests import (
    AnswerEnd,
    Completion,
    Engine,
    Handle,
    TextDelta,
    TextEvent,
    TextFinished,
    TextOptions,
    TextRequest,
    ToolCalled,
)
from .scores import Likely, Scored
from .stream import acomplete, astream, complete, stream, succeeded
from .tools import Tool, ToolCall, ToolUse
from .unicode import require_plain

__all__ = [
    "AnswerEnd",
    "Completion",
    "Engine",
    "GenerationDefaults",
    "Grammar",
    "Handle",
    "Likely",
    "Scored",
    "TextDelta",
    "TextEvent",
    "TextFinished",
    "TextModel",
    "TextOptions",
    "TextRequest",
    "Tool",
    "ToolCall",
    "ToolCalled",
    "ToolUse",
    "acomplete",
    "astream",
    "complete",
    "require_plain",
    "stream",
    "succeeded",
]
