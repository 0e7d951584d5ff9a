"""How much memory a coordinator takes for itself, and nodes beside what was planned."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from tools.figures import Figure, Settings
from tools.models import QWEN, SMOLLM2, folder
from tools.processes import Tc
from tools.server import Server
from tools.system import PeakMemory, peak_resident

from truecluster._cluster.model import ModelOptions, load_model
from truecluster._registry import Registry
from truecluster.api import Embed, Head

ALLOWANCE = 600_000_000
"""Bytes for Python, torch and everything else."""


def memory_smollm2(settings: Settings) -> Iterator[Figure]:
    """Peak RssAnon + RssShmem of `tc run`, two nodes, while it packs, pushes and answers from cold; taken once."""
    for quant in ("fp16", "int4"):
        yield _measure(SMOLLM2, quant, settings)


def memory_qwen(settings: Settings) -> Iterator[Figure]:
    """Peak RssAnon + RssShmem of `tc run`, two nodes, while it packs, pushes and answers from cold; taken once."""
    for quant in ("fp16", "int4"):
        yield _measure(QWEN, quant, settings)


def memory_nodes(settings: Settings) -> Iterator[Figure]:
    """Peak resident size of the two nodes of `tc run --serve`, as a share of what was planned: the farther from 1."""
    for quant in ("fp16", "int4"):
        model = ["--model", str(folder(SMOLLM2)), "--quant", quant, "--work-dir", str(settings.work)]
        with Server([*model, "--threads", str(settings.threads)]) as server:
            server.timed([7] * 500, 4)
            planned = {stage["node"]: stage["needed"] for stage in server.get("/cluster")["plan"]["stages"]}
            shares = [peak_resident(pid) / planned[node] for node, pid in _workers(server.pid)]
        farthest = max(shares, key=lambda share: abs(share - 1))
        yield Figure(name=f"node memory, smollm2 {quant}", samples=[farthest], unit="", target=1.1, higher=False)


def _workers(coordinator: int) -> Iterator[tuple[str, int]]:
    """Name and process of each."""
    for child in psutil.Process(coordinator).children():
        words = child.cmdline()
        yield words[words.index("--node-id") + 1], child.pid


def _measure(name: str, quant: str, settings: Settings) -> Figure:
    model = folder(name)
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as work:
        command = ["run", "--model", str(model), "--quant", quant, "--work-dir", work, "--max-tokens", "8", "--json"]
        command += ["--threads", str(settings.threads), "Say hello."]
        with Tc(command) as coordinator, PeakMemory(coordinator.pid) as memory:
            coordinator.finish()
        tensors, span = _sizes(model, quant, Path(work))
    how = f"two largest tensors {tensors / 1e6:.0f} MB + own span {span / 1e6:.0f} MB + {ALLOWANCE / 1e6:.0f} MB"
    return Figure(
        name=f"coordinator memory, {name.split('-')[0]} {quant}",
        samples=[memory.peak / 1e6],
        unit="MB",
        higher=False,
        target=(tensors + span + ALLOWANCE) / 1e6,
        how=how,
    )


def _sizes(model: Path, quant: str, work: Path) -> tuple[int, int]:
    """Bytes of the two largest tensors in the checkpoint, and packed bytes of embed and head."""
    loaded = load_model(Registry.installed(), ModelOptions(reference=str(model), quant=quant, work_dir=work))
    bound = loaded.bound
    with bound.checkpoint:
        largest = sorted(bound.checkpoint.tensors[s.tensor].nbytes for s in bound.sources.values())[-2:]
        own = {slot for part in (Embed(), Head()) for slot in bound.architecture.slots(bound.config, part)}
        return sum(largest), sum(loaded.catalog.nbytes(slot) for slot in own)
