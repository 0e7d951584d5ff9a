"""Who uses what of a store: a file per user, locked as long as that user lives.

leases/ID.lock    locked by the owner; a process that is killed lets go of it too
leases/ID         the hashes that the owner needs, one a line
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"


class Lease:
    """What one `Store` of one process needs. Ends with the object, at the latest with the process."""

    def __init__(self, folder: Path) -> None:
        self.id = secrets.token_hex(8)
        self._place = folder / self.id
        self._held: set[str] = set()
        lock = FileLock(folder / (self.id + LOCK), thread_local=False)
        lock.acquire(timeout=0)
        self._place.touch()
        self._end = weakref.finalize(self, _end, lock, self._place)

    def add(self, digests: Iterable[str]) -> None:
        """Need these too."""
        new = [digest for digest in dict.fromkeys(digests) if digest not in self._held]
        with self._place.open("a") as file:
            file.writelines(f"{digest}\n" for digest in new)
        self._held.update(new)

    def clear(self) -> None:
        """Need nothing any more."""
        self._place.write_text("")
        self._held.clear()

    def covers(self, digests: Iterable[str]) -> bool:
        """Whether all of them are held."""
        return self._held.issuperset(digests)


def living(folder: Path) -> Mapping[str, frozenset[str]]:
    """Lease → what it holds, of owners that live; what others left behind is removed. With the store locked."""
    found = {}
    for place in folder.glob("*" + LOCK):
        lease = folder / place.name.removesuffix(LOCK)
        if _is_held(place):
            found[lease.name] = frozenset(lease.read_text().split()) if lease.exists() else frozenset()
        else:
            _remove(lease)
    return found


def _is_held(place: Path) -> bool:
    lock = FileLock(place, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _end(lock: FileLock, place: Path) -> None:
    lock.release()
    _remove(place)


def _remove(lease: Path) -> None:
    with suppress(OSError):  # somebody else cleared it away, or the folder is gone
        lease.unlink(missing_ok=True)
        lease.with_name(lease.name + LOCK).unlink(missing_ok=True)
