"""Which files of a store may go, and in which order."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import attrs

STALE_SECONDS = 7 * 24 * 3600
"""How long the beginning of an object waits for its rest."""
NEW = "new"
"""Begins what stands in the place of a hash that isn't known before all bytes are there."""


@attrs.frozen
class Kept:
    """A file of a store: an object, or the beginning of one; ``digest`` is ``None`` while somebody writes it.

    ``used`` is when it was last, in ns.
    """

    path: Path
    digest: str | None
    size: int
    used: int


def kept(root: Path) -> list[Kept]:
    """Everything, longest unused first. The beginning of an object counts as used when it was last written to."""
    objects = [Kept(path, path.name, s.st_size, s.st_atime_ns) for path, s in _files((root / "objects").glob("*/*"))]
    parts = [Kept(path, _waiting(path), s.st_size, s.st_mtime_ns) for path, s in _files((root / "parts").iterdir())]
    return sorted(objects + parts, key=lambda file: file.used)


def _waiting(part: Path) -> str | None:
    return None if "." in part.name else part.name


def mark_used(path: Path, status: os.stat_result) -> None:
    """Note that an object is used now; when it was written stays as it is."""
    os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))


def part_name(digest: str, owner: str) -> str:
    """The file name of an object's beginning that ``owner``, a lease, writes; without one it is the hash alone."""
    return f"{digest}.{owner}"


def clear_parts(folder: Path, living: Collection[str]) -> None:
    """Free what owners that are gone were writing, for whoever goes on with it; delete what nobody can or will."""
    for path, status in list(_files(folder.iterdir())):
        digest, _, owner = path.name.partition(".")
        if owner in living:
            continue
        if digest.startswith(NEW) or time.time() - status.st_mtime > STALE_SECONDS:
            path.unlink(missing_ok=True)
        elif owner:
            os.replace(path, path.with_name(digest))


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    for path in paths:
        try:
            yield path, path.stat()
        except FileNotFoundError:
            continue  # another process was quicker
