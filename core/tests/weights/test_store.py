"""The store: bytes by their hash, checked on every read, whole or not there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest
import torch

from truecluster._weights.store import Store
from truecluster.api import NodeError

DATA = torch.arange(5000, dtype=torch.int32).view(torch.uint8)
DIGEST = hashlib.sha256(DATA.numpy().tobytes()).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def files(root: Path) -> list[str]:
    return sorted(file.name for name in ("objects", "parts") for file in (root / name).rglob("*") if file.is_file())


def test_an_object_is_named_by_its_hash(store, tmp_path):
    assert store.read(DIGEST) is None
    assert store.write(DATA) == DIGEST
    assert torch.equal(store.read(DIGEST), DATA)
    assert (tmp_path / "objects" / DIGEST[:2] / DIGEST).read_bytes() == DATA.numpy().tobytes()
    assert files(tmp_path) == [DIGEST]


@pytest.mark.parametrize("damage", ["one byte", "cut", "longer", "empty"])
def test_a_damaged_object_is_dropped_when_it_is_read_and_said_in_one_line(store, tmp_path, caplog, damage):
    store.write(DATA)
    place = tmp_path / "objects" / DIGEST[:2] / DIGEST
    good = place.read_bytes()
    bad = {"one byte": b"\xff" + good[1:], "cut": good[:-1], "longer": good + b"\0", "empty": b""}
    place.write_bytes(bad[damage])
    assert store.read(DIGEST) is None
    why = "it is empty" if damage == "empty" else "its bytes have another hash"
    wanted = f"{tmp_path}: {DIGEST[:12]}… is damaged ({why}); it is made or fetched again"
    assert [record.message for record in caplog.records] == [wanted]
    assert not place.exists()
    store.write(DATA)
    assert torch.equal(store.read(DIGEST), DATA)


def test_an_object_that_is_not_there_is_nothing_to_speak_of(store, caplog):
    assert store.read(DIGEST) is None
    assert caplog.records == []


def test_an_object_that_can_not_be_read_is_dropped(store, tmp_path, caplog, monkeypatch):
    store.write(DATA)
    place = tmp_path / "objects" / DIGEST[:2] / DIGEST
    real = Path.open

    def refused(self, *arguments, **more):
        if self == place:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", refused)
    assert store.read(DIGEST) is None
    assert "is damaged ([Errno 13] Permission denied)" in caplog.text
    assert not place.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_an_object_of_another_user_is_dropped(store, tmp_path, caplog):
    """Who owns a file can change it after its hash was checked."""
    store.write(DATA)
    place = tmp_path / "objects" / DIGEST[:2] / DIGEST
    os.chown(place, 12345, 12345)
    assert store.read(DIGEST) is None
    assert "is damaged (another user owns it)" in caplog.text
    assert not place.exists()


def test_only_the_user_reads_what_is_stored(store, tmp_path):
    store.write(DATA)
    Store(tmp_path / "new" / "store")
    assert (tmp_path / "new" / "store").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "objects" / DIGEST[:2] / DIGEST).stat().st_mode & 0o777 == 0o600


def test_what_was_read_stays_when_the_object_goes(store, tmp_path):
    store.write(DATA)
    read = store.read(DIGEST)
    (tmp_path / "objects" / DIGEST[:2] / DIGEST).unlink()
    assert torch.equal(read, DATA)


def test_writing_to_what_was_read_does_not_reach_the_store(store):
    store.write(DATA)
    store.read(DIGEST).zero_()
    assert torch.equal(store.read(DIGEST), DATA)


def test_pieces_make_one_object(store, tmp_path):
    whole = DATA.numpy().data
    with store.writer(DIGEST, DATA.numel()) as writer:
        for start in range(0, len(whole), 777):
            writer.write(whole[start : start + 777])
        assert files(tmp_path)[0].startswith(f"{DIGEST}.")
        assert writer.commit(DIGEST) == DIGEST
    assert files(tmp_path) == [DIGEST]


def test_a_writer_that_does_not_come_to_the_end_leaves_nothing(store, tmp_path):
    with contextlib.suppress(RuntimeError), store.writer(DIGEST, DATA.numel()) as writer:
        writer.write(b"half")
        raise RuntimeError("the connection is lost")
    with store.writer(DIGEST, DATA.numel()) as writer:
        writer.write(b"and nobody committed")
    assert files(tmp_path) == []


def test_other_bytes_than_announced_are_refused_and_leave_nothing(store, tmp_path):
    with store.writer(DIGEST, DATA.numel()) as writer:
        writer.write(b"something else")
        with pytest.raises(NodeError, match=rf"arrived damaged: {DIGEST[:12]}… was announced"):
            writer.commit(DIGEST)
    assert files(tmp_path) == []


def test_several_writers_of_one_object_end_in_one(store, tmp_path):
    barrier, results = threading.Barrier(4), []

    def write() -> None:
        with Store(tmp_path).writer(DIGEST, DATA.numel()) as writer:
            writer.write(DATA.numpy().data)
            barrier.wait(10)
            results.append(writer.commit(DIGEST))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert results == [DIGEST] * 4
    assert files(tmp_path) == [DIGEST]
    assert torch.equal(store.read(DIGEST), DATA)


def test_what_was_packed_is_remembered_across_stores(store, tmp_path):
    assert store.known("model") == {}
    store.remember("model", {"key": (DIGEST, 20000)})
    Store(tmp_path).remember("model", {"other": ("b" * 64, 1)})
    assert Store(tmp_path).known("model") == {"key": (DIGEST, 20000), "other": ("b" * 64, 1)}
    assert store.known("another") == {}


@pytest.mark.parametrize("line", [b'["key", "abc', b"\xff\xfe\x00", b"5", b"[1, 2]", b"{}"])
def test_a_manifest_that_a_crash_damaged_loses_only_what_it_lost(store, tmp_path, line):
    store.remember("model", {"key": (DIGEST, 20000)})
    with (tmp_path / "manifests" / "model").open("ab") as file:
        file.write(line + b"\n")
    store.remember("model", {"other": ("b" * 64, 1)})
    assert Store(tmp_path).known("model") == {"key": (DIGEST, 20000), "other": ("b" * 64, 1)}


def test_every_damaged_byte_of_a_manifest_costs_one_entry(store, tmp_path):
    store.remember("model", {"key": (DIGEST, 20000)})
    store.remember("model", {"other": ("b" * 64, 1)})
    file = tmp_path / "manifests" / "model"
    whole = file.read_bytes()
    for at in range(whole.index(b"\n")):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert Store(tmp_path).known("model") == {"other": ("b" * 64, 1)}


def test_a_folder_that_can_not_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match=r"work folder .*file can't be used: .*; choose another folder with"):
        Store(tmp_path / "file")


def test_a_folder_that_goes_away_is_named(store, tmp_path):
    (tmp_path / "objects").rmdir()
    with pytest.raises(NodeError, match="can't be used: No such file or directory"):
        store.write(DATA)
    (tmp_path / "manifests").rmdir()
    with pytest.raises(NodeError, match="can't be used"):
        store.remember("model", {"key": (DIGEST, 1)})
