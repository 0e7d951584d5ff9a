"""One safetensors file, mapped. The safetensors library checks the header; the bytes are handed over as they lie."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from mmap import mmap
from pathlib import Path
from typing import Any

import attrs
from safetensors import SafetensorError, safe_open

from truecluster.api import CheckpointError, Packed, TensorInfo

from .formats import FAMILY
from .mapping import map_file, view

PLAIN: Mapping[str, str] = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}
"""Element type of the file → format id; others are of this plugin's family, which has those that are weights."""
SIZES: Mapping[str, int] = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
"""Bytes of an element; other types aren't read."""
_LENGTH = 8
"""Bytes that hold the header's length."""


@attrs.frozen
class Entry:
    """A tensor's element type, and the bytes ``start:stop`` of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def format(self) -> str:
        """The format's id; a type that isn't read has one that no format has."""
        return PLAIN.get(self.dtype, f"{FAMILY}.{self.dtype.lower()}")

    @property
    def info(self) -> TensorInfo:
        """What the checkpoint tells of it."""
        return TensorInfo(self.shape, self.format, self.stop - self.start)


@attrs.frozen(eq=False)
class SafetensorsFile:
    """``identity`` is a hash of header, size and time of change."""

    path: Path
    entries: Mapping[str, Entry]
    mapped: mmap
    identity: str

    def read(self, name: str) -> Packed:
        """The tensor's bytes, mapped. Raises `CheckpointError` for an element type that has no format."""
        entry = self.entries[name]
        if entry.dtype not in SIZES:
            raise CheckpointError(
                f"{self.path}: tensor {name!r} has elements of type {entry.dtype}, which aren't read as weights; "
                f"supported: {', '.join(SIZES)}"
            )
        return Packed(entry.format, entry.shape, view(self.mapped, entry.start, entry.stop))


def open_file(path: Path) -> SafetensorsFile:
    """Check and map a file. Raises `CheckpointError` naming it and what is wrong."""
    _check(path)
    mapped = map_file(path)
    stop = _LENGTH + int.from_bytes(mapped[:_LENGTH], "little")
    header = json.loads(mapped[_LENGTH:stop], object_pairs_hook=lambda pairs: _unique(path, pairs))
    entries = {name: _entry(path, name, value, stop) for name, value in header.items() if name != "__metadata__"}
    status = path.stat()
    digest = hashlib.sha256(mapped[:stop] + f"{status.st_size} {status.st_mtime_ns}".encode())
    return SafetensorsFile(path, entries, mapped, digest.hexdigest())


def _check(path: Path) -> None:
    """The library refuses what is cut short, overlaps, leaves holes, overflows or isn't a header at all."""
    if not path.is_file():
        raise CheckpointError(f"{path}: the file is missing; fetch the model again")
    try:
        with safe_open(str(path), framework="np"):
            pass
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: not a usable safetensors file: {error}; fetch it again") from None


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CheckpointError(f"{path}: its header has a name twice; the file is damaged")
    return found


def _entry(path: Path, name: str, value: Mapping[str, Any], base: int) -> Entry:
    start, stop = value["data_offsets"]
    entry = Entry(value["dtype"], tuple(value["shape"]), base + start, base + stop)
    size = SIZES.get(entry.dtype)
    if size and stop - start != size * math.prod(entry.shape):
        raise CheckpointError(f"{path}: tensor {name!r} has {stop - start} bytes for shape {entry.shape}")
    return entry
