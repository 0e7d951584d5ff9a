"""Weights on their way to real nodes that are killed, damaged, or run out of room."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from commands import Command, Commands
from saboteurs import saboteur
from tiny_checkpoints import write_tiny

HIDDEN, INNER, KEYS, LAYERS = 256, 4096, 128, 4
MATRIX = 2 * INNER * HIDDEN
BLOCK = 2 * (2 * HIDDEN**2 + 2 * KEYS * HIDDEN + HIDDEN + 2 * KEYS + 2 * HIDDEN) + 3 * MATRIX
"""Bytes of a block in fp16: q and output, k and v, their biases, two norms, three matrices of the MLP."""
PIECE = 1 << 18
"""Bytes that a node writes at once."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "broad"
    return write_tiny(folder, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS)


def before_each_piece(what: str) -> str:
    """Code of a `saboteur`: ``what`` may use ``count``, the number of pieces that were written before."""
    return f"""
        import errno, itertools, os, time
        from truecluster._weights.writing import ObjectWriter

        whole, pieces = ObjectWriter._write, itertools.count()

        def _write(self, piece):
            count = next(pieces)
            {what}
            return whole(self, piece)

        ObjectWriter._write = _write
    """


def moved(cluster: Command, node: str, run: int = 1) -> tuple[float, float]:
    """MB from the node's store and MB sent, as the cluster printed them for its ``run``-th run."""
    found = cluster.wait_for(rf"^{node}: .+ weights (\S+) MB from its store, (\S+) MB sent$", count=run)
    return float(found[1]), float(found[2])


def files(folder: Path, kind: str) -> list[Path]:
    return [path for path in (folder / kind).rglob("*") if path.is_file()]


def megabytes(size: int) -> float:
    return float(f"{size / 1e6:.1f}")


def on_disk(folder: Path) -> int:
    """Bytes of a store, whole objects and beginnings."""
    return sum(path.stat().st_size for kind in ("objects", "parts") for path in files(folder, kind))


def test_a_node_that_is_killed_amid_a_push_is_sent_only_the_rest(tc: Commands, model: Path, tmp_path: Path) -> None:
    cluster, _, port = tc.cluster(model, "--max-nodes", 1)
    kill = before_each_piece("os.kill(os.getpid(), 9) if count == 60 else None")
    assert tc.node(port, "a", env=saboteur(tmp_path / "killer", kill)).end().code == -signal.SIGKILL
    begun = files(tmp_path / "a", "parts")
    assert len(begun) == 1
    assert begun[0].stat().st_size % PIECE == 0
    assert begun[0].stat().st_size < MATRIX
    there = on_disk(tmp_path / "a")
    assert 0 < there < LAYERS * BLOCK
    tc.node(port, "a")
    assert moved(cluster, "a") == (megabytes(there), megabytes(LAYERS * BLOCK - there))
    assert files(tmp_path / "a", "parts") == []
    assert on_disk(tmp_path / "a") == LAYERS * BLOCK


def test_a_beginning_that_is_damaged_is_sent_again(tc: Commands, model: Path, tmp_path: Path) -> None:
    """After a crash of the machine the length of a file can be right and its bytes wrong."""
    cluster, _, port = tc.cluster(model, "--max-nodes", 1)
    kill = before_each_piece("os.kill(os.getpid(), 9) if count == 60 else None")
    tc.node(port, "a", env=saboteur(tmp_path / "killer", kill)).end()
    (begun,) = files(tmp_path / "a", "parts")
    begun.write_bytes(bytes(begun.stat().st_size))
    whole = on_disk(tmp_path / "a") - begun.stat().st_size
    tc.node(port, "a")
    assert moved(cluster, "a") == (megabytes(whole), megabytes(LAYERS * BLOCK - whole))


def test_a_node_that_dies_costs_the_others_nothing(tc: Commands, model: Path, tmp_path: Path) -> None:
    """The push to a node that lives is broken off between two pieces and goes on in the next run."""
    cluster, _, port = tc.cluster(model, "--max-nodes", 2)
    slow = before_each_piece("time.sleep(0.05)")
    tc.node(port, "a", env=saboteur(tmp_path / "slow", slow))
    cluster.wait_for("node a joined")
    kill = before_each_piece("os.kill(os.getpid(), 9) if count == 8 else None")
    tc.node(port, "b", env=saboteur(tmp_path / "killer", kill)).end()
    cluster.wait_for("could not start: node b was lost")
    tc.node(port, "b")
    stored, sent = moved(cluster, "a")
    assert stored > 0
    assert stored + sent == pytest.approx(2 * BLOCK / 1e6, abs=0.11)
    assert moved(cluster, "b")[1] > 0
    assert len(re.findall("node a joined", cluster.err)) == 1


def test_a_full_disk_ends_the_push_and_is_named(tc: Commands, model: Path, tmp_path: Path) -> None:
    cluster, _, port = tc.cluster(model, "--max-nodes", 1)
    full = before_each_piece("if count >= 60: raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))")
    node = tc.node(port, "a", env=saboteur(tmp_path / "full", full))
    store = re.escape(str(tmp_path / "a"))
    cluster.wait_for(
        rf"could not start: node a: work folder {store} is full: \d+ bytes of weights don't fit, \S+ MB are free; "
        "free some or choose another folder with --work-dir"
    )
    assert "internal error" not in cluster.err + node.err
    assert files(tmp_path / "a", "parts") == []
    whole = on_disk(tmp_path / "a")
    assert whole > 0
    node.send(signal.SIGINT)
    tc.node(port, "a")
    assert moved(cluster, "a") == (megabytes(whole), megabytes(LAYERS * BLOCK - whole))


def test_a_full_disk_while_packing_is_named(tc: Commands, model: Path, tmp_path: Path) -> None:
    full = before_each_piece("if count >= 60: raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))")
    ended = tc.run("run", "--model", model, "Tell me.", env=saboteur(tmp_path / "full", full))
    assert ended.code == 1
    assert ended.out == ""
    last = ended.err.splitlines()[-1]
    assert re.fullmatch(rf"tc: work folder {re.escape(str(tmp_path / 'work'))} is full: \d+ bytes of .*", last), last
    assert files(tmp_path / "work", "parts") == []


def test_a_damaged_unit_is_sent_again_and_said_in_one_line(tc: Commands, model: Path, tmp_path: Path) -> None:
    cluster, _, port = tc.cluster(model, "--max-nodes", 1)
    node = tc.node(port, "a")
    assert moved(cluster, "a") == (0.0, megabytes(LAYERS * BLOCK))
    node.send(signal.SIGINT)
    broken = next(path for path in files(tmp_path / "a", "objects") if path.stat().st_size == MATRIX)
    with broken.open("r+b") as file:
        file.write(b"\xaa\x55")
    node = tc.node(port, "a")
    assert moved(cluster, "a", run=2) == (megabytes(LAYERS * BLOCK - MATRIX), megabytes(MATRIX))
    said = [line for line in node.err.splitlines() if broken.name[:12] in line]
    assert said == [
        f"WARNING {tmp_path / 'a'}: {broken.name[:12]}… is damaged (its bytes have another hash); "
        "it is made or fetched again"
    ]


def test_a_store_that_can_not_be_used_is_said_before_joining(tc: Commands, tmp_path: Path) -> None:
    """There is no coordinator to join."""
    (tmp_path / "file").write_text("")
    ended = tc.node(1, "a", work_dir="file").end()
    assert ended.code == 1
    assert ended.err == (
        f"tc: work folder {tmp_path / 'file'} can't be used: File exists; choose another folder with --work-dir\n"
    )


def test_a_weight_that_can_not_be_loaded_is_named(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    """A faulty kernel: the node says of which weight, in which format, and what the kernel said."""
    code = """
        from truecluster._pipeline import build

        whole = build._prepare

        def _prepare(kernel, unit, read, target):
            handle = whole(kernel, unit, read, target)
            if unit.slot.key == "block.2.down":
                raise ValueError("3 is not a width")
            return handle

        build._prepare = _prepare
    """
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 1)
    tc.node(port, "a", env=saboteur(tmp_path / "faulty", code))
    cluster.wait_for(r"could not start: node a: block\.2\.down in fp16 can't be loaded: ValueError: 3 is not a width")
