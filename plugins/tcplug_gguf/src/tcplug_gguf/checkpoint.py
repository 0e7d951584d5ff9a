"""A GGUF file as a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from mmap import mmap
from pathlib import Path
from typing import Any

from truecluster.api import (
    Checkpoint,
    CheckpointError,
    CheckpointSource,
    OpenOptions,
    Packed,
    TensorInfo,
    TokenizerData,
)

from .cursor import Array, Cursor, decode
from .endings import ending_ids
from .header import Header, read_header
from .keys import Keys
from .mapping import map_file, view
from .tokenizer import build_tokenizer

VOCABULARY = "tokenizer."
MAX_ITEMS = 65536
"""Arrays that are longer aren't metadata."""


class GgufSource(CheckpointSource):
    """Opens ``*.gguf``."""

    def open(self, reference: str, options: OpenOptions) -> Checkpoint:
        path = Path(reference).expanduser()
        if not path.is_file():
            raise CheckpointError(f"{path}: there is no such file")
        mapped = map_file(path)
        return GgufCheckpoint(path, mapped, read_header(Cursor(path, mapped)))


class GgufCheckpoint(Checkpoint):
    """Keys in memory, vocabulary and tensors mapped."""

    container = "gguf"

    def __init__(self, path: Path, mapped: mmap, header: Header) -> None:
        self.name = path.stem
        self._path, self._header, self._mapped = path, header, mapped
        self._keys = Keys(Cursor(path, mapped), header.values)
        _refuse_split(self._keys)
        self.model_type = self._keys.required("general.architecture", str)
        self.metadata = _metadata(self._keys)
        self.tensors = {
            name: TensorInfo(place.shape, place.kind.format, place.stop - place.start)
            for name, place in header.tensors.items()
        }
        self.generation = _generation(self._keys)
        self.chat_templates = _chat_templates(self._keys)
        self.identity = _identity(path, mapped, header.stop)
        self._open = True

    def read(self, name: str) -> Packed:
        self._refuse_closed()
        place = self._header.tensors.get(name)
        if place is None:
            raise CheckpointError(f"{self._path}: there is no tensor {name!r}")
        return Packed(place.kind.format, place.shape, view(self._mapped, place.start, place.stop))

    def tokenizer(self) -> TokenizerData:
        self._refuse_closed()
        return build_tokenizer(self._keys)

    def close(self) -> None:
        """Views that were read stay valid; the file is unmapped with the last of them."""
        if self._open:
            self._open = False
            del self._mapped, self._keys

    def _refuse_closed(self) -> None:
        if not self._open:
            raise CheckpointError(f"{self._path}: the checkpoint is closed; open it again")


def _refuse_split(keys: Keys) -> None:
    count = keys.optional("split.count", int, 1)
    if count > 1:
        raise CheckpointError(
            f"{keys.path}: it is one of {count} pieces of a model; join them with llama-gguf-split --merge"
        )


def _metadata(keys: Keys) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in keys.values.items():
        if not isinstance(value, Array):
            found[key] = value
            continue
        found[f"{key}.count"] = value.count
        if not key.startswith(VOCABULARY) and value.count <= MAX_ITEMS:
            found[key] = decode(keys.cursor, value, f"key {key!r}")
    return found


def _generation(keys: Keys) -> Mapping[str, Any]:
    ids = ending_ids(keys)
    return {"eos_token_id": ids[0] if len(ids) == 1 else ids} if ids else {}


def _chat_templates(keys: Keys) -> Mapping[str, str]:
    plain, prefix = "tokenizer.chat_template", "tokenizer.chat_template."
    named = {key[len(prefix) :]: keys.required(key, str) for key in keys.values if key.startswith(prefix)}
    return named | ({"default": keys.required(plain, str)} if plain in keys.values else {})


def _identity(path: Path, mapped: mmap, stop: int) -> str:
    status = path.stat()
    digest = hashlib.sha256(mapped[:stop])
    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()
