"""What nodes really take at their peak, as the system counts it, against what ``tc plan`` said before anything ran."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from commands import Command, Commands, Ended, Served
from tcplug_cpu_kernels.native import path

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from /proc, which only Linux has"),
]
SMALL = ("--context", 512, "--max-sequences", 1)
LARGE = ("--context", 8192, "--max-sequences", 8)
ALLOWED = 200_000_000
NAMES = ("a", "b")


@attrs.frozen
class Node:
    """Bytes that were planned, and that were taken at most."""

    planned: int
    peak: int


@pytest.fixture(scope="module", params=["fp16", "int4"])
def quant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def peak(node: Command) -> int:
    """Highest resident size of a process so far, mapped files included."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{node.process.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def measured(tc: Commands, tc_here: Callable[..., Ended], model: Path, arguments: tuple[object, ...]) -> list[Node]:
    """Two nodes, from their start until they have answered a prompt that fills two steps."""
    ended = tc_here("plan", "--model", model, "--node", "cpu:8GB", "--node", "cpu:8GB", "--json", *arguments)
    assert ended.code == 0, ended.err
    planned = {stage["node"]: stage["needed"] for stage in json.loads(ended.out)["stages"]}
    cluster, api, port = tc.cluster(model, "--max-nodes", 2, *arguments)
    nodes = [tc.node(port, name, work_dir="work") for name in NAMES]
    for name in NAMES:
        cluster.wait_for(f"^{name}: blocks", timeout=240)
    answer = Served(cluster, api, port).complete([7] * 500, max_tokens=4, model=model.name)
    assert answer.status_code == 200, answer.text
    found = [Node(planned[f"node-{number}"], peak(node)) for number, node in enumerate(nodes, 1)]
    cluster.send(signal.SIGINT)
    for node in nodes:
        node.end()
    return found


def test_nodes_take_what_was_planned(
    tc: Commands, tc_here: Callable[..., Ended], smollm2_folder: Path, quant: str
) -> None:
    small, large = (
        measured(tc, tc_here, smollm2_folder, ("--quant", quant, *arguments)) for arguments in (SMALL, LARGE)
    )
    for node in (*small, *large):
        assert abs(node.peak - node.planned) <= max(0.1 * node.planned, ALLOWED), node
    for less, more in zip(small, large, strict=True):
        assert more.peak - less.peak == pytest.approx(more.planned - less.planned, rel=0.1)
    print("\n".join(f"{quant}: planned {n.planned / 1e6:.0f} MB, peak {n.peak / 1e6:.0f} MB" for n in (*small, *large)))


@pytest.mark.skipif(path() is None, reason="the CPU kernels, whose needs it counts, were built without a compiler")
@pytest.mark.parametrize("bound", [283, 284])
def test_a_context_is_reduced_to_what_a_node_allows(tc: Commands, tiny: Path, bound: int) -> None:
    """The node's process may take so many MB; requests are then held to the context that is left."""
    cluster, api, port = tc.cluster(tiny, "--max-nodes", 1)
    node = tc.node(port, "a", "--max-memory-gb", bound / 1000)
    line = cluster.wait_for(r"context reduced from 4,096 to ([\d,]+) tokens")
    context = int(line[1].replace(",", ""))
    assert context == pytest.approx(((bound - 280) * 10**6 - (1 << 20) - 4 * 62_000) / 1024, rel=0.05)
    cluster.wait_for("^a: blocks")
    served = Served(cluster, api, port)
    long = served.complete("x" * context)
    assert (long.status_code, long.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert served.complete("x" * 40).status_code == 200
    assert node.process.poll() is None


def test_a_node_that_is_too_small_is_told_in_bytes(tc: Commands, tiny: Path) -> None:
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 1)
    tc.node(port, "a", "--max-memory-gb", 0.281)
    said = cluster.wait_for(r".*with 1,024 tokens of context, tiny doesn't fit on 1 node: ([\d,]+) bytes are missing.*")
    assert "a would need" in said[0]
    assert "and has 1,000,000" in said[0]
