"""Reading the small files of a model's folder: bounded, and never outside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from truecluster.api import CheckpointError

MAX_BYTES = 256 << 20
"""Of a text file; the largest tokenizers take some 30 MB."""


def inside(folder: Path, name: str) -> Path:
    """The path of a model's file. Raises `CheckpointError` where it would leave the folder.

    A link from a snapshot of the hub's cache into the ``blobs`` of that cache stays inside.
    """
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name.replace("\\", "/")).parts:
        raise CheckpointError(f"{folder}: {name!r} leaves the model's folder; refused")
    target = path.resolve()
    if not any(target.is_relative_to(root.resolve()) for root in (folder, *_blobs(folder))):
        raise CheckpointError(f"{path}: the link leaves the model's folder, to {target}; put the file itself there")
    return path


def _blobs(folder: Path) -> tuple[Path, ...]:
    """Where the links of a hub snapshot ``CACHE/models--ORG--NAME/snapshots/REVISION`` may lead."""
    repository = folder.parent.parent
    if folder.parent.name != "snapshots" or not repository.name.startswith("models--"):
        return ()
    return repository / "blobs", repository.parent / "blobs"


def read_text(folder: Path, name: str) -> str | None:
    """A file's text, ``None`` where there is none. Raises `CheckpointError` where it can't be read."""
    path = inside(folder, name)
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CheckpointError(f"{path}: has {path.stat().st_size} bytes; at most {MAX_BYTES} are read")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read: {error.strerror or error}") from None


def parse_object(path: Path, text: str) -> dict[str, Any]:
    """A JSON object. Raises `CheckpointError` naming the file and what is wrong with it."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise CheckpointError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: must hold a JSON object, not a {type(value).__name__}")
    return value


def read_object(folder: Path, name: str) -> dict[str, Any]:
    """A file that holds a JSON object; empty where there is no such file."""
    text = read_text(folder, name)
    return {} if text is None else parse_object(folder / name, text)
