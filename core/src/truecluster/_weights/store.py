"""Packed bytes on disk by content hash: one store per user and machine, shared by every process.

    objects/ab/abcdef…    the bytes whose sha256 is the name; the time of access is when they were last used
    parts/abcdef…[.ID]    the beginning of such bytes; with the lease that is writing it
    leases/ID             the hashes that a living process needs
    manifests/SOURCE      checksum, recipe key → content hash and bytes, a line each, appended
    lock                  held while leases, parts or what may go are looked at

An object is written aside, hashed while it is written, and renamed into place; nothing is synced to disk, since a
damaged object is found when it is read and made or fetched again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import torch
from filelock import FileLock, Timeout

from truecluster.api import NodeError

from .eviction import NEW, clear_parts, kept, mark_used, part_name
from .leases import Lease, living
from .refusals import full, naming
from .writing import ObjectWriter

LOG = logging.getLogger(__name__)
DEFAULT_LIMIT = 50 * 10**9
"""Bytes of a store, beyond which what nobody uses goes."""
HASH_STEP = 1 << 24
LOCK_SECONDS = 30.0


def default_root() -> Path:
    """The user's cache folder for packed weights."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "truecluster" / "weights"


class Store:
    """Keeps to ``limit`` bytes, except for what living processes `hold`.

    Raises `NodeError` naming the folder where it can't be written.
    """

    def __init__(self, root: Path, limit: int = DEFAULT_LIMIT) -> None:
        self._root, self._limit = root, limit
        self._objects, self._manifests, self._parts, self._leases = (
            root / name for name in ("objects", "manifests", "parts", "leases")
        )
        with naming(root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self._objects, self._manifests, self._parts, self._leases):
                folder.mkdir(exist_ok=True)
            tempfile.TemporaryFile(dir=root).close()  # a folder that can't be written shows now, not in a run
        with self._locked():
            self._lease = Lease(self._leases)
        self._owners = {path.stat().st_uid for path in (root, self._leases / self._lease.id)}

    def read(self, digest: str) -> torch.Tensor | None:
        """The object's bytes, mapped, flat uint8, after checking their hash; ``None`` if absent or damaged."""
        with naming(self._root):
            try:
                with self._place(digest).open("rb") as file:
                    return torch.frombuffer(self._checked(file, digest), dtype=torch.uint8)
            except FileNotFoundError:
                return None
            except (PermissionError, _DamagedError) as error:
                LOG.warning("%s: %s… is damaged (%s); it is made or fetched again", self._root, digest[:12], error)
                self._place(digest).unlink(missing_ok=True)
                return None

    def write(self, data: torch.Tensor) -> str:
        """Store flat uint8 bytes; returns their content hash."""
        with self.writer(f"{NEW}-{secrets.token_hex(8)}", data.numel()) as writer:
            writer.write(data.numpy().data)
            return writer.commit()

    def writer(self, digest: str, size: int) -> ObjectWriter:
        """For bytes that arrive in pieces; goes on after those that were claimed."""
        return ObjectWriter(self._root, self._parts / part_name(digest, self._lease.id), size)

    def claim(self, digests: Iterable[str]) -> list[str]:
        """Those whose beginning is here from an earlier time and is nobody else's; `writer` then goes on with it."""
        with self._locked():
            clear_parts(self._parts, living(self._leases))
            found = [digest for digest in digests if (self._parts / digest).exists()]
            for digest in found:
                os.replace(self._parts / digest, self._parts / part_name(digest, self._lease.id))
        return found

    def hold(self, digests: Iterable[str]) -> None:
        """Keep these from going, present or to come, until `let_go` or the end of this process."""
        wanted = list(digests)
        if not self._lease.covers(wanted):
            with self._locked():
                self._lease.add(wanted)

    def let_go(self) -> None:
        """Hold nothing any more."""
        with self._locked():
            self._lease.clear()

    def make_room(self, incoming: int = 0) -> None:
        """Delete what nobody holds, longest unused first, until ``incoming`` more bytes are within the limit.

        Raises `NodeError` where they don't fit on the disk.
        """
        with self._locked():
            leases = living(self._leases)
            clear_parts(self._parts, leases)
            held = frozenset[str]().union(*leases.values())
            files = kept(self._root)
            excess = sum(file.size for file in files) + incoming - self._limit
            free = shutil.disk_usage(self._root).free
            for file in files:
                if max(excess, incoming - free) <= 0:
                    return
                if file.digest is not None and file.digest not in held:
                    file.path.unlink(missing_ok=True)
                    excess, free = excess - file.size, free + file.size
        if incoming > free:
            raise full(self._root, incoming)
        if excess > 0:
            used = (self._limit + excess) / 1e9
            LOG.warning("%s: %.1f GB are in use at once, more than --cache-max-gb allows to keep", self._root, used)

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
            file.writelines(_line(key, digest, size) + "\n" for key, (digest, size) in entries.items())

    def _checked(self, file: BinaryIO, digest: str) -> mmap.mmap:
        """The file's bytes. Raises `_DamagedError` where they can't be what ``digest`` names."""
        status = os.fstat(file.fileno())
        if status.st_uid not in self._owners:
            raise _DamagedError("another user owns it")
        if status.st_size == 0:
            raise _DamagedError("it is empty")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        if _sha256(mapped) != digest:
            raise _DamagedError("its bytes have another hash")
        with suppress(OSError):  # it serves, even where its times can't be set
            mark_used(self._place(digest), status)
        return mapped

    def _place(self, digest: str) -> Path:
        return self._objects / digest[:2] / digest

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self._root / "lock", thread_local=False)
        with naming(self._root):
            try:
                lock.acquire(timeout=LOCK_SECONDS)
            except Timeout:
                raise NodeError(
                    f"work folder {self._root} has been locked by another process for {LOCK_SECONDS:g} s; "
                    "end it, or choose another folder with --work-dir"
                ) from None
            try:
                yield
            finally:
                lock.release()


class _DamagedError(Exception):
    """An object isn't what its name says."""


def _line(key: str, digest: str, size: int) -> str:
    """An entry of a manifest with its checksum: a damaged one would name bytes that nobody has."""
    entry = json.dumps([key, digest, size])
    return f"{hashlib.sha256(entry.encode()).hexdigest()[:16]} {entry}"


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, tuple[str, int]]]:
    """Those that are whole. Of what a crash cut short or something damaged, the unit is packed again."""
    for line in lines:
        check, _, entry = line.partition(" ")
        if check == hashlib.sha256(entry.encode()).hexdigest()[:16]:
            key, digest, size = json.loads(entry)
            yield key, (digest, size)


def _sha256(mapped: mmap.mmap) -> str:
    digest = hashlib.sha256()
    with memoryview(mapped) as view:
        for start in range(0, len(view), HASH_STEP):
            digest.update(view[start : start + HASH_STEP])
    return digest.hexdigest()
