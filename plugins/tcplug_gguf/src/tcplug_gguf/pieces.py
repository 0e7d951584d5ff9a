"""A model in one file, or in pieces that llama.cpp's gguf-split made: ``NAME-00001-of-00003.gguf``."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from mmap import mmap
from pathlib import Path

import attrs
import torch

from truecluster.api import CheckpointError, Packed

from .cursor import Cursor
from .header import Header, read_header
from .keys import Keys
from .mapping import map_file, view

_NUMBERED = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})")
FIVE = 5
"""How many missing pieces a message names."""


@attrs.frozen(eq=False)
class Piece:
    """One mapped file with what stands before its data."""

    path: Path
    mapped: mmap
    header: Header

    @classmethod
    def open(cls, path: Path) -> Piece:
        """Raises `CheckpointError` where it is no sound GGUF file."""
        if not path.is_file():
            raise CheckpointError(f"{path}: there is no such file")
        mapped = map_file(path)
        return cls(path, mapped, read_header(Cursor(path, mapped)))

    @property
    def keys(self) -> Keys:
        """Its keys."""
        return Keys(Cursor(self.path, self.mapped), self.header.values)

    @property
    def count(self) -> int:
        """How many pieces the model has."""
        return self.keys.optional("split.count", int, 1)

    def read(self, name: str) -> Packed:
        """A tensor's own bytes, mapped."""
        place = self.header.tensors[name]
        return Packed(place.kind.format, place.shape, self.bytes(place.start, place.stop))

    def bytes(self, start: int, stop: int) -> torch.Tensor:
        """Mapped bytes."""
        return view(self.mapped, start, stop)

    def identity(self) -> str:
        """Changes whenever any byte might have."""
        status = self.path.stat()
        digest = hashlib.sha256(self.mapped[: self.header.stop])
        digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
        return digest.hexdigest()


def open_pieces(path: Path) -> tuple[str, tuple[Piece, ...]]:
    """The model's name and its pieces, the one with the keys first; ``path`` may be any of them.

    Raises `CheckpointError` naming the pieces that are missing, or what doesn't fit together.
    """
    given = Piece.open(path)
    if given.count <= 1:
        return path.stem, (given,)
    numbered = _NUMBERED.fullmatch(path.stem)
    if numbered is None or int(numbered["count"]) != given.count:
        raise CheckpointError(
            f"{path}: it is one of {given.count} pieces of a model, which must be named "
            f"NAME-00001-of-{given.count:05}{path.suffix} and so on; give it back its name"
        )
    pieces = tuple(Piece.open(other) for other in _paths(path, numbered["name"], given.count))
    _check(path, pieces)
    return numbered["name"], pieces


def _paths(path: Path, name: str, count: int) -> list[Path]:
    paths = [path.with_name(f"{name}-{number:05}-of-{count:05}{path.suffix}") for number in range(1, count + 1)]
    missing = [other.name for other in paths if not other.is_file()]
    if missing:
        more = f" and {len(missing) - FIVE} more" if len(missing) > FIVE else ""
        raise CheckpointError(
            f"{path}: {len(missing)} of the model's {count} pieces are missing beside it: "
            f"{', '.join(missing[:FIVE])}{more}; fetch them too"
        )
    return paths


def _check(path: Path, pieces: tuple[Piece, ...]) -> None:
    for number, piece in enumerate(pieces):
        if (piece.keys.required("split.no", int), piece.count) != (number, len(pieces)):
            raise CheckpointError(f"{piece.path}: split.no or split.count contradicts its name; fetch it again")
    counts = Counter(name for piece in pieces for name in piece.header.tensors)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise CheckpointError(f"{path}: two of the model's pieces have the tensor {twice[0]!r}; fetch the model again")
    promised = pieces[0].keys.optional("split.tensors.count", int, len(counts))
    if promised != len(counts):
        raise CheckpointError(
            f"{path}: the model's pieces have {len(counts)} tensors together, but should have {promised}; "
            "fetch the model again"
        )
