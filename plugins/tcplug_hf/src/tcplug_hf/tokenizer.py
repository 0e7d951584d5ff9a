"""``tokenizer.json`` and what the files beside it say about its special tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truecluster.api import CheckpointError, TokenizerData

from .files import read_object, read_text

FILE = "tokenizer.json"
OTHERS = ("tokenizer.model", "vocab.json", "vocab.txt", "tokenizer_config.json")


def read_tokenizer(folder: Path) -> TokenizerData:
    """The tokenizer. Raises `CheckpointError` where the folder has none or a file is damaged.

    ``add_bos`` is what ``tokenizer_config.json`` says, else whether the tokenizer itself puts that token first.
    """
    facts = read_object(folder, "special_tokens_map.json") | _stated(read_object(folder, "tokenizer_config.json"))
    text = read_text(folder, FILE)
    if text is None and not any((folder / name).is_file() for name in OTHERS):
        raise CheckpointError(f"{folder}: there is no {FILE} and no other tokenizer; fetch the model again")
    bos, eos = (_content(folder, name, facts.get(name)) for name in ("bos_token", "eos_token"))
    stated = facts.get("add_bos_token")
    add_bos = stated if isinstance(stated, bool) else text is not None and _puts_first(folder, text, bos)
    return TokenizerData(json=text, bos=bos, eos=eos, add_bos=add_bos, folder=None if text else str(folder))


def _stated(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if value is not None}


def _content(folder: Path, name: str, value: object) -> str | None:
    """A token is a text, or an object with its ``content``."""
    content = value.get("content") if isinstance(value, dict) else value
    if content is None or isinstance(content, str):
        return content
    raise CheckpointError(f"{folder / 'tokenizer_config.json'}: {name} must be a text, not {value!r:.60}")


def _puts_first(folder: Path, text: str, bos: str | None) -> bool:
    try:
        processor = json.loads(text).get("post_processor")
    except (ValueError, AttributeError, RecursionError):
        raise CheckpointError(f"{folder / FILE}: is not a tokenizer; fetch it again") from None
    return bos is not None and _first_token(processor) == bos


def _first_token(processor: Any) -> str | None:
    """The special token that a post-processor puts before a text."""
    if not isinstance(processor, dict):
        return None
    if processor.get("type") == "Sequence":
        return next(filter(None, map(_first_token, processor.get("processors", []))), None)
    single = processor.get("single") or [{}]
    token = single[0].get("SpecialToken", {}).get("id")
    return token if isinstance(token, str) else None
