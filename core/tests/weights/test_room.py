"""A store keeps to its limit: what was longest unused goes, what a living process needs stays."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from truecluster._weights import eviction
from truecluster._weights.store import Store
from truecluster.api import NodeError

SIZE = 1000
HOLDER = """
import sys
from pathlib import Path
from truecluster._weights.store import Store

store = Store(Path(sys.argv[1]))
store.hold(sys.argv[2:])
print("held", flush=True)
sys.stdin.read()
"""


def data(seed: int) -> torch.Tensor:
    return torch.full((SIZE,), seed, dtype=torch.uint8)


def digest(seed: int) -> str:
    return hashlib.sha256(bytes([seed]) * SIZE).hexdigest()


def fill(store: Store, root: Path, *seeds: int) -> None:
    """Write objects that were last used in the order given, an hour apart, all of them long ago."""
    for age, seed in enumerate(reversed(seeds), 1):
        store.write(data(seed))
        used = time.time() - 3600 * age
        os.utime(place(root, seed), (used, used))


def place(root: Path, seed: int) -> Path:
    return root / "objects" / digest(seed)[:2] / digest(seed)


def there(root: Path) -> list[int]:
    return [seed for seed in range(10) if place(root, seed).exists()]


@contextmanager
def holder(root: Path, *seeds: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that needs these objects."""
    command = [sys.executable, "-c", HOLDER, str(root), *map(digest, seeds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_the_longest_unused_go_first_and_only_as_many_as_must(tmp_path):
    store = Store(tmp_path, limit=4 * SIZE)
    fill(store, tmp_path, 1, 2, 3, 4)
    store.make_room()
    assert there(tmp_path) == [1, 2, 3, 4]
    store.make_room(SIZE + 1)
    assert there(tmp_path) == [3, 4]


def test_reading_an_object_is_using_it(tmp_path):
    store = Store(tmp_path, limit=2 * SIZE)
    fill(store, tmp_path, 1, 2, 3)
    written = place(tmp_path, 1).stat().st_mtime_ns
    assert store.read(digest(1)) is not None
    assert place(tmp_path, 1).stat().st_mtime_ns == written
    store.make_room()
    assert there(tmp_path) == [1, 3]


def test_what_is_held_stays_until_it_is_let_go(tmp_path, caplog):
    store = Store(tmp_path, limit=SIZE)
    fill(store, tmp_path, 1, 2, 3)
    store.hold([digest(1), digest(2)])
    store.make_room()
    assert there(tmp_path) == [1, 2]
    assert [r.message for r in caplog.records] == [
        f"{tmp_path}: 0.0 GB are in use at once, more than --cache-max-gb allows to keep"
    ]
    store.let_go()
    store.make_room()
    assert there(tmp_path) == [2]


def test_another_store_of_the_same_folder_counts_as_another_user(tmp_path):
    """Nodes that share a process have a store each."""
    one, two = Store(tmp_path, limit=0), Store(tmp_path, limit=0)
    fill(one, tmp_path, 1, 2)
    one.hold([digest(1)])
    two.make_room()
    assert there(tmp_path) == [1]


def test_what_a_living_process_holds_stays_and_a_killed_one_holds_nothing(tmp_path):
    store = Store(tmp_path, limit=0)
    fill(store, tmp_path, 1, 2)
    with holder(tmp_path, 1) as process:
        store.make_room()
        assert there(tmp_path) == [1]
        process.kill()
        process.wait(20)
        store.make_room()
    assert there(tmp_path) == []
    assert len(list((tmp_path / "leases").iterdir())) == 2  # of the one store that is left


def test_a_store_that_is_not_used_any_more_leaves_no_lease(tmp_path):
    store = Store(tmp_path)
    store.hold([digest(1)])
    del store
    assert list((tmp_path / "leases").iterdir()) == []


def test_what_is_being_written_stays(tmp_path):
    store = Store(tmp_path, limit=0)
    with store.writer(digest(1), SIZE) as writer:
        writer.write(bytes([1]) * 400)
        Store(tmp_path, limit=0).make_room()
        writer.write(bytes([1]) * 600)
        assert writer.commit(digest(1)) == digest(1)
    assert there(tmp_path) == [1]


def test_bytes_that_do_not_fit_on_the_disk_are_refused_with_numbers(tmp_path, monkeypatch):
    store = Store(tmp_path)
    fill(store, tmp_path, 1, 2)
    store.hold([digest(2)])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=500))
    store.make_room(1200)
    assert there(tmp_path) == [2]  # the space of the other one is enough
    wanted = r"is full: 1501 bytes of weights don't fit, 0\.0 MB are free; free some or choose another"
    with pytest.raises(NodeError, match=wanted) as raised:
        store.make_room(1501)
    assert str(tmp_path) in str(raised.value)
    assert there(tmp_path) == [2]


def test_beginnings_wait_a_week_for_their_rest(tmp_path):
    store = Store(tmp_path)
    for seed, days in ((1, 6), (2, 8)):
        with store.writer(digest(seed), SIZE) as writer:
            writer.write(b"begun")
            writer.suspend(digest(seed))
        then = time.time() - days * 24 * 3600
        os.utime(tmp_path / "parts" / digest(seed), (then, then))
    store.make_room()
    assert [part.name for part in (tmp_path / "parts").iterdir()] == [digest(1)]


def test_beginnings_go_like_objects(tmp_path):
    store = Store(tmp_path, limit=2 * SIZE)
    fill(store, tmp_path, 1, 2)
    with store.writer(digest(3), SIZE) as writer:
        writer.write(b"begun")
        writer.suspend(digest(3))
    then = time.time() - 100_000
    os.utime(tmp_path / "parts" / digest(3), (then, then))
    store.make_room()
    assert there(tmp_path) == [1, 2]
    assert list((tmp_path / "parts").iterdir()) == []


def test_half_packed_files_of_a_killed_process_go(tmp_path):
    dead = tmp_path / "parts" / f"{eviction.NEW}-1.{'0' * 16}"
    store = Store(tmp_path)
    dead.write_bytes(b"half")
    store.make_room()
    assert not dead.exists()


@pytest.fixture(autouse=True)
def _warnings(caplog):
    caplog.set_level(logging.WARNING)
