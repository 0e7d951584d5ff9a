"""Chat templates, in every place where models keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truecluster.api import CheckpointError

from .files import read_object, read_text

FILE, FOLDER, CONFIG = "chat_template.jinja", "additional_chat_templates", "tokenizer_config.json"


def chat_templates(folder: Path) -> dict[str, str]:
    """Templates by name. A file of its own goes before what ``tokenizer_config.json`` says."""
    found = _configured(folder, read_object(folder, CONFIG).get("chat_template"))
    for path in sorted((folder / FOLDER).glob("*.jinja")):
        found[path.stem] = read_text(folder, f"{FOLDER}/{path.name}") or ""
    default = read_text(folder, FILE)
    return found if default is None else {**found, "default": default}


def _configured(folder: Path, value: Any) -> dict[str, str]:
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
        raise CheckpointError(f"{folder / CONFIG}: chat_template must be a text, or a list of names with templates")
    return named
