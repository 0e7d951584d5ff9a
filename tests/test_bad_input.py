"""A user's mistakes: an error that names the thing and the remedy, exit 2, and nothing left half-started."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Commands, Ended, free_port
from refusals import refused
from saboteurs import in_loading, saboteur
from tiny_checkpoints import tensors, write_tiny


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arch", "qwen3"], ["unknown architecture 'qwen3'", "did you mean 'qwen2'", "must be installed"]),
        (["--quant", "int5"], ["unknown quantizer 'int5'", "int4"]),
        (["--quant", "INT4"], ["unknown quantizer 'INT4'", "did you mean 'int4'"]),
        (["--planner", "evn"], ["unknown planner 'evn'", "did you mean 'even'"]),
        (["--planner", "even:x"], ["--planner 'even:x'", "NAME:key=value"]),
        (["--transport", "quic"], ["unknown transport 'quic'", "tcp"]),
        (["--head", "middle"], ["--head 'middle'", "coordinator or last-stage"]),
        (["--model", "nowhere/"], ["'nowhere/'", "no such file or folder", "a model is one of"]),
        (["--model", "missing.gguf"], ["'missing.gguf'", "no such file or folder"]),
        (["--model", "svn:thing"], ["no plugin opens 'svn:'", "pypi:"]),
        (["--serve"], ["--serve", "no prompt"]),
        (["--raw", "--system", "Be kind."], ["--raw", "--system"]),
        (["--log-level", "loud"], ["--log-level 'loud'", "warning"]),
        (["--api-host", "0.0.0.0"], ["--api-host 0.0.0.0", "127.0.0.1"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_an_option_that_cannot_be_honoured(
    tc_here: Callable[..., Ended], tiny: Path, arguments: list[str], words: list[str]
) -> None:
    model = [] if "--model" in arguments else ["--model", tiny]
    refused(tc_here("run", *model, *arguments, "Hello"), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--planner", "even:x=1", "Hello"], ["planner 'even'", "'x'"]),
        (["--device", "tpu", "Hello"], ["device 'tpu'", "--device: cpu"]),
        (["--stop", "", "Hello"], ["stop", "empty"]),
        (["x" * 5000], ["maximum context length is 4096", "shorten it"]),
    ],
    ids=["planner", "device", "stop", "prompt"],
)
def test_what_only_the_model_or_the_machine_can_tell(
    tc: Commands, tiny: Path, arguments: list[str], words: list[str]
) -> None:
    refused(tc.run("run", "--model", tiny, *arguments), *words)
    assert not tc.left()


def without(name: str) -> Callable[[Path], object]:
    """Write the model without one of its tensors."""
    return lambda folder: write_tiny(folder, {key: value for key, value in tensors().items() if key != name})


def misshapen(folder: Path) -> None:
    weights = tensors()
    weights["model.layers.1.mlp.up_proj.weight"] = weights["model.layers.1.mlp.up_proj.weight"][:-1].clone()
    write_tiny(folder, weights)


def sharded(folder: Path) -> Path:
    """Write the model as two shards."""
    from safetensors.torch import save_file

    weights, names = tensors(), ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    write_tiny(folder)
    (folder / "model.safetensors").unlink()
    where = {key: names[index % 2] for index, key in enumerate(weights)}
    for name in names:
        save_file({key: value for key, value in weights.items() if where[key] == name}, folder / name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder / names[1]


def truncated_shard(folder: Path) -> None:
    shard = sharded(folder)
    shard.write_bytes(shard.read_bytes()[:-100])


def without_config(folder: Path) -> None:
    write_tiny(folder)
    (folder / "config.json").unlink()


HYBRID = {"model_type": "qwen3_next", "layer_types": ["linear_attention"] * 3 + ["full_attention"]}


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (without_config, ["model", "config.json"]),
        (without("model.layers.2.self_attn.v_proj.weight"), ["missing: model.layers.2.self_attn.v_proj.weight"]),
        (misshapen, ["model.layers.1.mlp.up_proj.weight is [95, 64], the config needs [96, 64]"]),
        (lambda folder: sharded(folder).unlink(), ["model-00002-of-00002.safetensors"]),
        (truncated_shard, ["model-00002-of-00002.safetensors", "fetch it again"]),
        (lambda folder: write_tiny(folder, model_type="qwen9"), ["qwen9", "qwen2"]),
        (lambda folder: write_tiny(folder, **HYBRID), ["qwen3_next", "linear_attention"]),
        (lambda folder: write_tiny(folder, layer_types=HYBRID["layer_types"]), ["linear_attention"]),
        (lambda folder: write_tiny(folder, num_experts=8, num_experts_per_tok=2), ["num_experts"]),
    ],
    ids=[
        "no-config",
        "tensor-missing",
        "misshapen",
        "shard-missing",
        "shard-cut",
        "type",
        "hybrid",
        "linear",
        "experts",
    ],
)
def test_a_model_that_cannot_be_run(
    tc_here: Callable[..., Ended], tmp_path: Path, write: Callable[[Path], Any], words: list[str]
) -> None:
    write(tmp_path / "model")
    refused(tc_here("plan", "--model", tmp_path / "model", "--node", "cpu"), *words)


def test_a_damaged_model_leaves_no_worker(tc: Commands, tmp_path: Path) -> None:
    truncated_shard(tmp_path / "model")
    refused(tc.run("run", "--model", tmp_path / "model", "Hello"), "model-00002-of-00002.safetensors")
    assert not tc.left()


@pytest.mark.parametrize("damage", [lambda data: data[:5000], lambda data: data[:8] + b"\xff" * 16 + data[24:100]])
def test_a_damaged_gguf(tc_here: Callable[..., Ended], tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(damage(small_gguf(tmp_path)))
    refused(tc_here("plan", "--model", file, "--node", "cpu"), "small.gguf")


def small_gguf(folder: Path) -> bytes:
    """A file with a few keys and one tensor."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(folder / "whole.gguf", "llama")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.zeros((64, 64), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return (folder / "whole.gguf").read_bytes()


def test_a_hub_id_without_the_hub(tc_here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused(tc_here("plan", "--model", "org/name", "--node", "cpu"), "org/name", "a folder, a .gguf file")


@pytest.mark.parametrize("option", ["--node-port", "--api-port"])
def test_a_port_in_use_is_found_before_anything_is_loaded(tc: Commands, tiny: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = {"--node-port": "--api-port", "--api-port": "--node-port"}[option]
        ended = tc.run("cluster", "--model", tiny, option, port, other, 0)
    refused(ended, f"127.0.0.1:{port}", "0 ")
    assert "architecture" not in ended.err


def test_an_api_port_in_use_is_found_before_workers_are_started(tc: Commands, tiny: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = tc.run("run", "--model", tiny, "--serve", "--api-port", port)
    refused(ended, f"127.0.0.1:{port}", "--api-port")
    assert "architecture" not in ended.err


def test_an_address_that_others_reach_needs_a_key(tc: Commands, tiny: Path) -> None:
    ended = tc.run("cluster", "--model", tiny, "--node-host", "0.0.0.0", env={"TRUECLUSTER_KEY": ""})
    refused(ended, "key is empty")
    ended = tc.run("cluster", "--model", tiny, "--node-host", "0.0.0.0", key=None)
    refused(ended, "--node-host 0.0.0.0", "--key-file or TRUECLUSTER_KEY")


def test_a_node_without_a_coordinator(tc: Commands) -> None:
    port = free_port()
    refused(tc.node(port, "a", "--join-timeout", 0).end(), f"can't reach 127.0.0.1:{port}", "check the address")


def test_a_node_at_another_services_port(tc: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        node = tc.node(service.getsockname()[1], "a")
        peer, _ = service.accept()
        peer.sendall(b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(64))
        refused(node.end(), "not a TrueCluster", "Check host and port")
        peer.close()


def test_a_node_over_a_transport_that_reaches_only_its_own_process(tc: Commands) -> None:
    refused(tc.run("node", "--transport", "memory"), "--transport memory reaches only one process", "leave it out")


def test_a_node_without_a_key(tc: Commands) -> None:
    refused(tc.run("node", key=None), "needs the cluster's key", "--key-file or TRUECLUSTER_KEY")


def test_a_node_on_a_device_that_is_not_there(tc: Commands) -> None:
    refused(tc.run("node", "--device", "tpu"), "device 'tpu'", "--device")


def test_a_plugin_that_does_not_import_costs_only_its_own_offers(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "site"
    metadata = path / "tcplug_broken-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tcplug-broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[truecluster.plugins]\nbroken = tcplug_broken.plugin\n")
    (path / "tcplug_broken").mkdir()
    (path / "tcplug_broken" / "plugin.py").write_text("import a_library_that_nobody_has\n")
    env = {"PYTHONPATH": str(path)}
    listed = tc.run("plugin", "list", env=env)
    assert listed.code == 0
    assert "qwen2" in listed.out
    assert re.search("tcplug-broken 1.0.*a_library_that_nobody_has", listed.err)
    refused(tc.run("run", "--arch", "broken", "Hello", env=env), "'broken'", "tcplug-broken 1.0")
    answered = tc.run("run", "--model", tiny, "--max-tokens", 2, "--nodes", 1, "Hello", env=env)
    assert answered.code == 0, answered.err


def test_a_node_that_dies_while_it_loads(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    """The coordinator says so and waits for another."""
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 1)
    loads = "print('it loads', file=sys.stderr, flush=True); time.sleep(600)"
    node = tc.node(port, "a", env=saboteur(tmp_path / "site", in_loading(loads)))
    node.wait_for("^it loads$")
    node.send(signal.SIGKILL)
    cluster.wait_for("^the run could not start: node a was lost", timeout=30)
    tc.node(port, "b")
    cluster.wait_for("^b: blocks 0-3")
