"""A GGUF file as a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
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

from .cursor import Array, decode
from .dtype import compute_dtype
from .endings import ending_ids
from .keys import Keys
from .pieces import Piece, open_pieces
from .tokenizer import build_tokenizer

VOCABULARY = "tokenizer."
MAX_ITEMS = 65536
"""Arrays that are longer aren't metadata."""


class GgufSource(CheckpointSource):
    """Opens ``*.gguf``; of a model in pieces any one."""

    def open(self, reference: str, options: OpenOptions) -> Checkpoint:
        name, pieces = open_pieces(Path(reference).expanduser())
        return GgufCheckpoint(name, pieces)


class GgufCheckpoint(Checkpoint):
    """Keys in memory, vocabulary and tensors mapped."""

    container = "gguf"

    def __init__(self, name: str, pieces: tuple[Piece, ...]) -> None:
        self.name = name
        self._path, self._keys = pieces[0].path, pieces[0].keys
        self._places = {tensor: piece for piece in pieces for tensor in piece.header.tensors}
        self.model_type = self._keys.required("general.architecture", str)
        places = {tensor: piece.header.tensors[tensor] for tensor, piece in self._places.items()}
        self.metadata = {**_metadata(self._keys), "tensors.dtype": compute_dtype(places.values())}
        self.tensors = {
            tensor: TensorInfo(place.shape, place.kind.format, place.stop - place.start)
            for tensor, place in places.items()
        }
        self.generation = _generation(self._keys)
        self.chat_templates = _chat_templates(self._keys)
        self.identity = " ".join(piece.identity() for piece in pieces)
        self._open = True

    def read(self, name: str) -> Packed:
        self._refuse_closed()
        if name not in self._places:
            raise CheckpointError(f"{self._path}: there is no tensor {name!r}")
        return self._places[name].read(name)

    def tokenizer(self) -> TokenizerData:
        self._refuse_closed()
        return build_tokenizer(self._keys)

    def close(self) -> None:
        """Views that were read stay valid; a file is unmapped with the last of them."""
        if self._open:
            self._open = False
            del self._places, self._keys

    def _refuse_closed(self) -> None:
        if not self._open:
            raise CheckpointError(f"{self._path}: the checkpoint is closed; open it again")


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
