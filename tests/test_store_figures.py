"""Bytes of weights, as ``--json`` gives them, against counting by hand; and the limit of the store."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import Command, Commands
from tiny_checkpoints import CONFIG, shapes, write_tiny


def stored(folder: Path) -> dict[str, int]:
    """Hash → bytes of a store's objects."""
    return {path.name: path.stat().st_size for path in (folder / "objects").glob("*/*")}


def weights(part: str, **config: Any) -> int:
    """Bytes in fp16 of the tensors whose names hold ``part``."""
    found = [shape for name, shape in shapes({**CONFIG, **config}).items() if part in name]
    return sum(2 * shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in found)


def plan_of(tc: Commands, model: Path, *arguments: object) -> dict[str, Any]:
    done = tc.run("run", "--model", model, "--json", "--raw", "--max-tokens", 1, *arguments, "a")
    assert done.code == 0, done.err
    plan: dict[str, Any] = json.loads(done.out)["plan"]
    return plan


def test_every_figure_in_json_adds_up(tc: Commands, tiny: Path) -> None:
    block = weights("layers.0")
    expected = [weights("embed"), 2 * block, 2 * block, weights("model.norm") + weights("lm_head")]
    plan = plan_of(tc, tiny)
    assert [stage["weight_bytes"] for stage in plan["stages"]] == expected
    for each in (*plan["stages"], plan):
        assert each["weight_bytes"] == each["stored_bytes"] + each["sent_bytes"]
    assert plan["weight_bytes"] == plan["packed_bytes"] == sum(expected) == sum(stored(tc.folder / "work").values())
    again = plan_of(tc, tiny)
    assert (again["weight_bytes"], again["packed_bytes"]) == (sum(expected), 0)


def start(tc: Commands, model: Path, name: str, *arguments: object, **how: Any) -> Command:
    """A cluster of one node, and the node, which is ready."""
    cluster, _, port = tc.cluster(model, "--max-nodes", 1)
    node = tc.node(port, name, *arguments, **how)
    cluster.wait_for(rf"^{name}: .* sent$")
    return node


def test_the_store_keeps_what_a_living_node_uses_and_lets_the_rest_go(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    """Three nodes of one store, each of a cluster of its own; the last may keep nothing that isn't in use."""
    b_model, c_model = (write_tiny(tmp_path / f"model-{size}", hidden_size=size) for size in (32, 48))
    start(tc, tiny, "a", work_dir="shared")
    a_units = stored(tmp_path / "shared").keys()
    start(tc, b_model, "b", work_dir="shared").send(signal.SIGINT)
    b_units = stored(tmp_path / "shared").keys() - a_units
    assert len(b_units) > 0
    start(tc, c_model, "c", "--cache-max-gb", 0, work_dir="shared")
    left = stored(tmp_path / "shared").keys()
    assert left > a_units
    assert left & b_units == set()


@pytest.mark.parametrize("command", ["run", "cluster", "node"])
@pytest.mark.parametrize("given", ["-1", "nan", "inf"])
def test_a_limit_that_is_no_size_is_refused(
    tc_here: Any, monkeypatch: pytest.MonkeyPatch, command: str, given: str
) -> None:
    monkeypatch.setenv("TRUECLUSTER_KEY", "given")
    ended = tc_here(command, *(["--model", "nowhere"] if command == "cluster" else []), f"--cache-max-gb={given}")
    assert ended.code == 2
    assert re.search(rf"--cache-max-gb {given} is no size; give GB, 0 or more", ended.err)
