"""Chat templates, in every place where models keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truecluster.api import CheckpointError

from .files import read_object, read_text

FILE, FOLDER = "chat_template.jinja", "additional_chat_templates"
OLDER = ("tokenizer_config.json", "chat_template.json")


def chat_templates(folder: Path) -> dict[str, str]:
    """Templates by name. A file of its own goes before ``chat_template.json``, that before the tokenizer's config."""
    found: dict[str, str] = {}
    for name in OLDER:
        found |= _configured(folder / name, read_object(folder, name).get("chat_template"))
    for path in sorted((folder / FOLDER).glob("*.jinja")):
        found[path.stem] = read_text(folder, f"{FOLDER}/{path.name}") or ""
    default = read_text(folder, FILE)
    return found if default is None else {**found, "default": default}


def _configured(path: Path, value: Any) -> dict[str, str]:
    """A template, or a list of ``{"name": …, "template": …}``."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    try:
        named = {item["name"]: item["template"] for item in value}
    except (TypeError, KeyError):
        named = {"": None}
    if not all(isinstance(text, str) for pair in named.items() for text in pair):
        raise CheckpointError(f"{path}: chat_template must be a text, or a list of names with templates")
    return named
