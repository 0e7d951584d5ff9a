"""One object on its way into the store."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from truecluster.api import NodeError

from .refusals import naming

WRITE_STEP = 1 << 18
"""Bytes of one write. For 1 MiB and more Linux takes pages as large, which a virtual machine may not have been given
yet: 1.3 to 2.3 s of the processor for a GB instead of 0.2."""


class ObjectWriter:
    """Takes the bytes of an object of ``size``, hashed as they come; starts after those that ``part`` has already.

    `commit` checks the hash and makes it visible. Leaving the block without it throws the bytes away; `suspend` keeps
    them under their announced hash for `Store.resume`. Raises `NodeError` where they can't be written, and then keeps
    none of them.
    """

    def __init__(self, root: Path, part: Path, size: int) -> None:
        self._root, self._part, self._size = root, part, size
        self.done = 0
        """Bytes that are there."""
        with naming(root, size):
            self._file = open(part, "a+b", buffering=0, opener=_private)  # noqa: SIM115
            self._begin()

    @property
    def digest(self) -> str:
        """The hash of the bytes that are there."""
        return self._digest.hexdigest()

    def restart(self) -> None:
        """Begin again with the first byte."""
        with naming(self._root, self._size):
            self._file.truncate(0)
            self._begin()

    def write(self, data: memoryview | bytes) -> None:
        """Append bytes."""
        with memoryview(data) as view:
            for start in range(0, len(view), WRITE_STEP):
                self._append(view[start : start + WRITE_STEP])

    def commit(self, expected: str | None = None) -> str:
        """The content hash. Raises `NodeError` where it isn't ``expected``."""
        found = self.digest
        if expected is not None and found != expected:
            self.discard()
            raise NodeError(f"weights arrived damaged: {expected[:12]}… was announced, {found[:12]}… came; start again")
        place = self._root / "objects" / found[:2] / found
        with naming(self._root, self._size):
            self._file.close()
            place.parent.mkdir(exist_ok=True)
            os.replace(self._part, place)
        return found

    def suspend(self, digest: str) -> None:
        """Keep what came, for whoever goes on with it, unless it was committed or thrown away."""
        if not self.done:
            return self.discard()
        with suppress(OSError):  # then it is fetched anew
            self._file.close()
            os.replace(self._part, self._part.with_name(digest))

    def discard(self) -> None:
        """Throw away what came, unless it was committed."""
        with suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._digest = hashlib.sha256()
        self._file.seek(0)
        while piece := self._file.read(WRITE_STEP):
            self._digest.update(piece)
        self.done = self._file.tell()

    def _append(self, piece: memoryview) -> None:
        self._digest.update(piece)
        try:
            with naming(self._root, self._size - self.done):
                self._write(piece)
        except NodeError:
            self.discard()
            raise
        self.done += len(piece)

    def _write(self, piece: memoryview) -> None:
        while piece:
            piece = piece[self._file.write(piece) :]

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.discard()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
