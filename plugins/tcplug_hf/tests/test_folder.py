"""What is in a folder, what is missing, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tcplug_hf.source import HfSource

from truecluster.api import CheckpointError, OpenOptions

INDEX = "model.safetensors.index.json"


def opened(reference):
    return HfSource().open(str(reference), OpenOptions())


def refuse(reference, *words):
    with pytest.raises(CheckpointError) as caught:
        opened(reference)
    for word in words:
        assert str(word) in str(caught.value)


def index(folder: Path, change) -> None:
    """Rewrite the index's weight map."""
    held = json.loads((folder / INDEX).read_text())
    change(held["weight_map"])
    (folder / INDEX).write_text(json.dumps(held))


def test_metadata_is_config_json(folder):
    path = folder(files={"generation_config.json": {"eos_token_id": [1, 2]}})
    checkpoint = opened(path)
    assert checkpoint.metadata == {"model_type": "qwen2", "hidden_size": 8}
    assert checkpoint.generation == {"eos_token_id": [1, 2]}
    assert (checkpoint.name, checkpoint.container, checkpoint.model_type) == ("tiny", "huggingface", "qwen2")


def test_formats_are_those_of_the_file(folder):
    formats = {name: info.format for name, info in opened(folder()).tensors.items()}
    assert formats == {"a.weight": "fp32", "b.weight": "fp16", "c.weight": "bf16", "d.weight": "fp32"}


def test_another_element_type_is_refused_when_it_is_read(folder):
    path = folder()
    save_file({"ids": torch.arange(3), "good": torch.ones(2)}, path / "model.safetensors")
    checkpoint = opened(path)
    assert checkpoint.tensors["ids"].nbytes == 24
    assert checkpoint.read("good").format == "fp32"
    with pytest.raises(CheckpointError, match="'ids' has elements of type I64, which aren't read as weights"):
        checkpoint.read("ids")


def test_paths_of_every_kind(folder, tmp_path, monkeypatch):
    """LOAD-10."""
    spaced = folder().rename(tmp_path / "my model")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for reference in (spaced, f"{spaced}/", "~/my model", "my model", "./my model/", "my model/../my model"):
        assert opened(reference).name == "my model"
    monkeypatch.chdir(spaced)
    assert opened(".").name == "my model"


def test_a_folder_without_config(folder):
    path = folder(files={"config.json": None})
    refuse(path, path, "no config.json")
    (path / "model.gguf").touch()
    refuse(path, "name its GGUF file instead", path / "model.gguf")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[1]", "a list"),
        ("{", "is not JSON"),
        ("{}", "model_type is missing"),
        ('{"model_type": 5}', "model_type is missing"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_wrong_config(folder, text, word):
    refuse(folder(files={"config.json": text}), "config.json", word)


def test_a_config_that_is_not_text(folder):
    path = folder()
    (path / "config.json").write_bytes(b'{"model_type": "\xff"}')
    refuse(path, "config.json", "UTF-8")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickles_are_refused(folder, name):
    """SEC-09."""
    path = folder()
    (path / "model.safetensors").rename(path / name)
    refuse(path, name, "safetensors or GGUF only")


def test_no_weights_at_all(folder):
    path = folder()
    (path / "model.safetensors").rename(path / "other.safetensors")
    refuse(path, "neither model.safetensors nor", "other.safetensors")


def test_a_missing_shard_is_named(folder):
    """LOAD-04."""
    path = folder(shards=2)
    (path / "model-00002-of-00002.safetensors").unlink()
    refuse(path, path / "model-00002-of-00002.safetensors", "missing")


def test_a_shard_without_its_tensor_is_named(folder):
    path = folder(shards=2)
    index(path, lambda places: places.update({"e.weight": "model-00001-of-00002.safetensors"}))
    refuse(path, "model-00001-of-00002.safetensors", "'e.weight' is missing")


def test_shards_may_lie_in_a_folder_below(folder):
    """LOAD-04: paths are relative to the index."""
    path = folder(shards=2)
    (path / "below").mkdir()
    (path / "model-00001-of-00002.safetensors").rename(path / "below" / "first.safetensors")
    index(path, lambda places: places.update(dict.fromkeys(("a.weight", "b.weight"), "below/first.safetensors")))
    assert opened(path).read("a.weight").shape == (5, 8)


@pytest.mark.parametrize(
    "place", ["../outside.safetensors", "below/../../outside.safetensors", "..\\outside", "ABSOLUTE"]
)
def test_shards_outside_are_refused(folder, tmp_path, place):
    """LOAD-04."""
    path = folder(shards=2)
    outside = tmp_path / "outside.safetensors"
    save_file({"a.weight": torch.ones(1)}, outside)
    place = str(outside) if place == "ABSOLUTE" else place
    index(path, lambda places: places.update({"a.weight": place}))
    refuse(path, repr(place), "leaves the model's folder")


def test_links_outside_are_refused(folder, tmp_path):
    path = folder()
    (path / "model.safetensors").rename(tmp_path / "outside.safetensors")
    (path / "model.safetensors").symlink_to(tmp_path / "outside.safetensors")
    refuse(path, "leaves the model's folder", tmp_path / "outside.safetensors")


def test_a_linked_folder_opens(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder())
    assert opened(tmp_path / "link").name == "tiny"


@pytest.mark.parametrize("map", [None, [], {"a.weight": 5}, "x"])
def test_a_wrong_index(folder, map):
    path = folder(shards=2)
    (path / INDEX).write_text(json.dumps({"weight_map": map}))
    refuse(path, INDEX, "weight_map")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        (2**63).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}" + bytes(4),
        (2).to_bytes(8, "little") + b"[]",
        (60).to_bytes(8, "little") + b'{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(60),
    ],
)
def test_a_damaged_file_is_named(folder, content):
    path = folder()
    (path / "model.safetensors").write_bytes(content)
    refuse(path, path / "model.safetensors")


def test_a_name_that_stands_there_twice(folder):
    path, entry = folder(), '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    header = f'{{"t":{entry},"t":{entry}}}'.encode()
    (path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    refuse(path, "model.safetensors")


def test_empty_tensors_are_legal(folder):
    path = folder()
    save_file({"none": torch.ones(0, 4), "some": torch.ones(1)}, path / "model.safetensors")
    assert opened(path).read("none").data.numel() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells private from file pages")
def test_reading_costs_no_memory_of_its_own(folder):
    path = folder()
    save_file({f"t{i}": torch.ones(1 << 20) for i in range(12)}, path / "model.safetensors")
    checkpoint = opened(path)
    memoryview(checkpoint.read("t0").data.numpy())
    before = private_kb()
    for name in checkpoint.tensors:
        bytes(memoryview(checkpoint.read(name).data.numpy())[::512])
    assert private_kb() - before < 4096


def private_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def test_identity_has_the_config(folder):
    path = folder(shards=2)
    before = opened(path).identity
    (path / "config.json").write_text(json.dumps({"model_type": "qwen2", "hidden_size": 9}))
    assert opened(path).identity != before
    os.utime(path / "config.json")


def test_the_plugin_offers_without_torch():
    code = (
        "import sys; from tcplug_hf import plugin as p;"
        "print([(s.name, s.forms) for s in p.truecluster_checkpoints()], 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[('hf', ('hf:', 'FOLDER', 'ORG/NAME'))] False"
