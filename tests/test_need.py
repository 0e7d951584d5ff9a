"""What moves to nodes whose stores are apart, counted by hand from spans and bytes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from commands import Command, Commands
from tiny_checkpoints import write_tiny

HIDDEN, INNER, KEYS, LAYERS = 256, 1024, 128, 6
BLOCK = 2 * (2 * HIDDEN**2 + 2 * KEYS * HIDDEN + 3 * INNER * HIDDEN + HIDDEN + 2 * KEYS + 2 * HIDDEN)
"""Bytes of a block in fp16: q and output, k and v, the three of the MLP, biases of q, k and v, two norms."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "six"
    return write_tiny(folder, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS)


def start(tc: Commands, model: Path, names: str) -> tuple[Command, int, list[Command]]:
    """A cluster, its port, and its nodes, which join in the order of their names."""
    cluster, _, port = tc.cluster(model, "--max-nodes", len(names))
    nodes = []
    for name in names:
        nodes.append(tc.node(port, name))
        cluster.wait_for(f"node {name} joined")
    return cluster, port, nodes


def figures(cluster: Command, names: str, run: int = 1) -> dict[str, tuple[str, str, str]]:
    """Node → span, MB from its store, MB sent, as the cluster printed them for its ``run``-th run."""
    pattern = r"^{}: (.+) in fp32, weights (\S+) MB from its store, (\S+) MB sent$"
    return {name: cluster.wait_for(pattern.format(name), count=run).groups() for name in names}  # type: ignore[misc]


def stored(tc: Commands, name: str) -> int:
    """Bytes of packed weights in a node's store."""
    return sum(file.stat().st_size for file in (tc.folder / name / "objects").rglob("*") if file.is_file())


def megabytes(blocks: int) -> str:
    return f"{blocks * BLOCK / 1e6:.1f}"


def test_only_what_a_node_lacks_moves(tc: Commands, model: Path) -> None:
    cluster, port, nodes = start(tc, model, "ab")
    assert figures(cluster, "ab") == {
        "a": ("blocks 0-2", "0.0", megabytes(3)),
        "b": ("blocks 3-5", "0.0", megabytes(3)),
    }
    assert [stored(tc, name) for name in "ab"] == [3 * BLOCK, 3 * BLOCK]

    nodes[1].send(signal.SIGINT)
    cluster.wait_for("the run failed: node b was lost")
    tc.node(port, "b")
    assert figures(cluster, "ab", run=2) == {
        "a": ("blocks 0-2", megabytes(3), "0.0"),
        "b": ("blocks 3-5", megabytes(3), "0.0"),
    }
    cluster.send(signal.SIGINT)

    cluster, *_ = start(tc, model, "abc")
    assert figures(cluster, "abc") == {
        "a": ("blocks 0-1", megabytes(2), "0.0"),
        "b": ("blocks 2-3", megabytes(1), megabytes(1)),
        "c": ("blocks 4-5", "0.0", megabytes(2)),
    }
    assert [stored(tc, name) for name in "abc"] == [3 * BLOCK, 4 * BLOCK, 2 * BLOCK]
    cluster.send(signal.SIGINT)
