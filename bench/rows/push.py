"""How fast weights reach a node that has none."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.figures import Figure, Settings
from tools.models import largest
from tools.processes import Tc

TARGET_GB_S = 0.5
BALLAST = 3 << 29
PIECE = 1 << 18
KEY = {"TRUECLUSTER_KEY": "bench"}


def push(settings: Settings) -> Iterator[Figure]:
    """`tc cluster` to `tc node` with an empty store, hashed at both ends and written: bytes / time to the last file."""
    model = largest()
    cluster = ["cluster", "--model", model, "--quant", "fp16", "--max-nodes", "1", "--head", "last-stage"]
    cluster += ["--work-dir", str(settings.work), "--node-port", "0", "--api-port", "0"]
    with Tc(cluster, KEY) as coordinator:
        port = _port(coordinator.wait_for("tc node"))
        rates = [_push(coordinator, port) for _ in range(settings.runs)]
    how = f"{push.__doc__} Model: {Path(model).name}"
    yield Figure(name="push fp16", samples=rates, unit="GB/s", target=TARGET_GB_S, how=how)


def _push(coordinator: Tc, port: str) -> float:
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as folder:
        ballast = Path(folder) / "ballast"
        fill(ballast, BALLAST)
        with Tc(["node", "--cluster-port", port, "--work-dir", folder], KEY) as node:
            node.wait_for("joined")
            ballast.unlink()
            coordinator.wait_for(" sent")
        return rate(Path(folder))


def fill(path: Path, size: int) -> None:
    """Write a file whose pages are free again when it goes.

    A virtual machine gets memory that it never used from its host, ten times slower than it writes; what is
    measured is a machine that has its memory.
    """
    piece = b"\1" * PIECE
    with path.open("wb", buffering=0) as file:
        for _ in range(size // PIECE):
            file.write(piece)


def rate(store: Path) -> float:
    """GB/s by the times at which the store's objects were complete; the first one's bytes only start the clock."""
    objects = sorted((path.stat() for path in store.glob("objects/*/*")), key=lambda status: status.st_mtime_ns)
    seconds = (objects[-1].st_mtime_ns - objects[0].st_mtime_ns) / 1e9
    return sum(status.st_size for status in objects[1:]) / seconds / 1e9


def _port(line: str) -> str:
    found = re.search(r"--cluster-port (\d+)", line)
    assert found is not None
    return found.group(1)
