"""Text: tokenizers, chat templates, stop strings and streams of text. Knows requests and events, but no node."""

from .defaults import GenerationDefaults
from .model import TextModel
from .requests import (
    Completion,
    Engine,
    Handle,
    TextDelta,
    TextEvent,
    TextFinished,
    TextOptions,
    TextRequest,
)
from .stream import acomplete, astream, complete, stream
from .unicode import require_unicode

__all__ = [
    "Completion",
    "Engine",
    "GenerationDefaults",
    "Handle",
    "TextDelta",
    "TextEvent",
    "TextFinished",
    "TextModel",
    "TextOptions",
    "TextRequest",
    "acomplete",
    "astream",
    "complete",
    "require_unicode",
    "stream",
]
