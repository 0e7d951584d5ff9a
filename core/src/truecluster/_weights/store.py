"""Packed bytes on disk by content hash: one store per user and machine, shared by every process.

    objects/ab/abcdef…    the bytes whose sha256 is the name
    manifests/SOURCE      recipe key → content hash and bytes, a JSON line each, appended

An object is written aside, hashed while it is written, and renamed into place; nothing is synced to disk, since a
damaged object is found when it is read and made or fetched again.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import torch

from truecluster.api import NodeError

HASH_STEP = 1 << 24
WRITE_STEP = 1 << 18
"""Bytes of one write. For 1 MiB and more Linux takes pages as large, which a virtual machine may not have been given
yet: 1.3 to 2.3 s of the processor for a GB instead of 0.2."""


def default_root() -> Path:
    """The user's cache folder for packed weights."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "truecluster" / "weights"


@contextmanager
def naming(root: Path) -> Iterator[None]:
    """The operating system's refusals as `NodeError` with the folder and the remedy."""
    try:
        yield
    except OSError as error:
        raise NodeError(f"work folder {root} can't be used: {error.strerror}; choose one with --work-dir") from None


class ObjectWriter:
    """Receives one object's bytes. `commit` checks the hash and makes it visible; without it nothing is kept."""

    def __init__(self, root: Path) -> None:
        self._root, self._objects = root, root / "objects"
        with naming(root):
            self._file = tempfile.NamedTemporaryFile(dir=self._objects, prefix=".part-", delete=False)  # noqa: SIM115
        self._digest = hashlib.sha256()

    def write(self, data: memoryview | bytes) -> None:
        """Append bytes."""
        self._digest.update(data)
        with naming(self._root):
            self._file.write(data)

    def commit(self, expected: str | None = None) -> str:
        """The content hash. Raises `NodeError` where it isn't ``expected``."""
        with naming(self._root):
            self._file.close()
        found = self._digest.hexdigest()
        if expected is not None and found != expected:
            raise NodeError(f"weights arrived damaged: {expected[:12]}… was announced, {found[:12]}… came; start again")
        place = self._objects / found[:2] / found
        with naming(self._root):
            place.parent.mkdir(exist_ok=True)
            os.replace(self._file.name, place)
        return found

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # what a full disk could not take is thrown away here
            self._file.close()
        Path(self._file.name).unlink(missing_ok=True)


class Store:
    """Raises `NodeError` naming the folder where it can't be written."""

    def __init__(self, root: Path) -> None:
        self._root, self._objects, self._manifests = root, root / "objects", root / "manifests"
        with naming(root):
            self._objects.mkdir(parents=True, exist_ok=True)
            self._manifests.mkdir(exist_ok=True)

    def has(self, digest: str) -> bool:
        """Whether the object is there; `read` may still find it damaged."""
        return self._place(digest).exists()

    def read(self, digest: str) -> torch.Tensor | None:
        """The object's bytes, mapped, flat uint8, after checking their hash; ``None`` if absent or damaged."""
        mapped = self._map(digest)
        if mapped is None or _sha256(mapped) != digest:
            self._place(digest).unlink(missing_ok=True)
            return None
        return torch.frombuffer(mapped, dtype=torch.uint8)

    def write(self, data: torch.Tensor) -> str:
        """Store flat uint8 bytes; returns their content hash."""
        with self.writer() as writer:
            writer.write(data.numpy().data)
            return writer.commit()

    def writer(self) -> ObjectWriter:
        """For bytes that arrive in pieces."""
        return ObjectWriter(self._root)

    def known(self, source: str) -> dict[str, tuple[str, int]]:
        """What was packed from a source before: recipe key → (content hash, bytes)."""
        try:
            lines = (self._manifests / source).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return {}
        return dict(_entries(lines))

    def remember(self, source: str, entries: Mapping[str, tuple[str, int]]) -> None:
        """Add to what `known` returns."""
        with naming(self._root), (self._manifests / source).open("a") as file:
            file.writelines(json.dumps([key, digest, size]) + "\n" for key, (digest, size) in entries.items())

    def _map(self, digest: str) -> mmap.mmap | None:
        """The object's file, ``None`` where it is absent or empty."""
        try:
            with self._place(digest).open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (FileNotFoundError, ValueError):
            return None

    def _place(self, digest: str) -> Path:
        return self._objects / digest[:2] / digest


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, tuple[str, int]]]:
    for line in lines:
        try:
            key, digest, size = json.loads(line)
        except (ValueError, TypeError):
            continue  # a line that a crash cut short: its unit is packed again
        yield key, (digest, size)


def _sha256(mapped: mmap.mmap) -> str:
    digest = hashlib.sha256()
    with memoryview(mapped) as view:
        for start in range(0, len(view), HASH_STEP):
            digest.update(view[start : start + HASH_STEP])
    return digest.hexdigest()
