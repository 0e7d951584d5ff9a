"""An object that arrives in pieces goes on where it was broken off, whoever broke it off."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from truecluster._weights import writing
from truecluster._weights.store import Store
from truecluster.api import NodeError

BYTES = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(BYTES).hexdigest()
KILLED = """
import os, sys
from pathlib import Path
from truecluster._weights.store import Store

writer = Store(Path(sys.argv[1])).writer(sys.argv[2], 1024000)
writer.write(bytes(range(256)) * 1000)
os.kill(os.getpid(), 9)
"""


def left(root: Path) -> list[str]:
    return [path.name for path in (root / "parts").iterdir()]


def begin(root: Path, size: int) -> None:
    writer = Store(root).writer(DIGEST, len(BYTES))
    writer.write(BYTES[:size])
    writer.suspend(DIGEST)


def finish(store: Store, size: int) -> None:
    """The rest, after ``size`` bytes that must be there."""
    assert store.claim([DIGEST]) == [DIGEST]
    with store.writer(DIGEST, len(BYTES)) as writer:
        assert writer.done == size
        assert writer.digest == hashlib.sha256(BYTES[:size]).hexdigest()
        writer.write(BYTES[size:])
        assert writer.commit(DIGEST) == DIGEST
    data = store.read(DIGEST)
    assert data is not None
    assert data.numpy().tobytes() == BYTES


def test_a_suspended_object_is_finished_by_another_store(tmp_path):
    begin(tmp_path, 300_001)
    finish(Store(tmp_path), 300_001)
    assert left(tmp_path) == []


def test_a_killed_process_leaves_what_it_had_written(tmp_path):
    process = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), DIGEST], timeout=60)
    assert process.returncode == -9
    finish(Store(tmp_path), 256_000)
    assert left(tmp_path) == []


def test_only_one_claims_a_beginning(tmp_path):
    begin(tmp_path, 1000)
    one, two = Store(tmp_path), Store(tmp_path)
    assert one.claim([DIGEST, "0" * 64]) == [DIGEST]
    assert two.claim([DIGEST]) == []
    with two.writer(DIGEST, len(BYTES)) as writer:
        assert writer.done == 0


def test_a_beginning_of_other_bytes_is_begun_again(tmp_path):
    store = Store(tmp_path)
    begin(tmp_path, 1000)
    store.claim([DIGEST])
    with store.writer(DIGEST, len(BYTES)) as writer:
        writer.restart()
        assert writer.done == 0
        writer.write(BYTES)
        assert writer.commit(DIGEST) == DIGEST


def test_nothing_is_kept_of_nothing(tmp_path):
    begin(tmp_path, 0)
    assert left(tmp_path) == []


def test_suspending_what_is_whole_or_thrown_away_keeps_nothing(tmp_path):
    store = Store(tmp_path)
    writer = store.writer(DIGEST, len(BYTES))
    writer.write(BYTES)
    writer.commit(DIGEST)
    writer.suspend(DIGEST)
    other = store.writer("0" * 64, 10)
    other.write(b"x")
    other.discard()
    other.suspend("0" * 64)
    assert left(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_named_and_nothing_half_written_stays(tmp_path, monkeypatch, number):
    store, real = Store(tmp_path), writing.ObjectWriter._write

    def full(self: writing.ObjectWriter, piece: memoryview) -> None:
        if self.done >= 2 * writing.WRITE_STEP:
            raise OSError(number, os.strerror(number))
        real(self, piece)

    monkeypatch.setattr(writing.ObjectWriter, "_write", full)
    rest = len(BYTES) - 2 * writing.WRITE_STEP
    writer = store.writer(DIGEST, len(BYTES))
    with pytest.raises(NodeError, match=rf"is full: {rest} bytes of weights don't fit, .* MB are free; ") as raised:
        writer.write(BYTES)
    assert f"work folder {tmp_path} " in str(raised.value)
    writer.suspend(DIGEST)
    assert left(tmp_path) == []
