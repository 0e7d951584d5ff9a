"""Hub ids: the cache without a network, and a hub that is absent, refuses, breaks off or serves, over real sockets."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub.constants
import psutil
import pytest
import torch
from safetensors.torch import save
from tcplug_hf import fetching, hub
from tcplug_hf.fetching import held_bytes
from tcplug_hf.source import HfSource

from truecluster.api import Checkpoint, CheckpointError, OpenOptions

sys.path.insert(0, str(Path(__file__).parent))

from hub_server import COMMIT, TOKEN, serving


@pytest.fixture
def no_network_later(monkeypatch):
    """Called, it takes the network away, from this process and those it starts."""

    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    def take_away():
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        monkeypatch.setattr(subprocess, "Popen", refuse)

    return take_away


@pytest.fixture
def no_network(no_network_later):
    no_network_later()


def open_id(reference, tmp_path, **options):
    source, options = HfSource(), OpenOptions(cache_dir=str(tmp_path / "hub"), **options)
    found = source.open(reference, options)
    return found if isinstance(found, Checkpoint) else source.open(found, options)


@pytest.mark.parametrize("reference", ["Acme/Tiny-1", "hf:Acme/Tiny-1", "hf:Acme/Tiny-1@main"])
def test_a_complete_cache_needs_no_network(cache, tmp_path, no_network, reference):
    cache()
    checkpoint = open_id(reference, tmp_path)
    assert checkpoint.name == "Acme/Tiny-1"
    assert checkpoint.read("a.weight").shape == (5, 8)
    assert checkpoint.tokenizer().json


def test_a_snapshot_folder_opens_under_its_hub_id(cache, no_network):
    assert HfSource().open(str(cache()), OpenOptions()).name == "Acme/Tiny-1"


def test_blobs_shared_by_the_whole_cache_are_inside(cache, tmp_path, no_network):
    snapshot = cache(shards=1)
    shared = tmp_path / "hub" / "blobs" / "00"
    shared.mkdir(parents=True)
    blob = (snapshot / "model.safetensors").resolve()
    blob.rename(shared / "weights")
    blob.symlink_to(shared / "weights")
    assert open_id("Acme/Tiny-1", tmp_path).read("a.weight").shape == (5, 8)


def test_other_links_of_a_snapshot_are_not(cache, tmp_path, no_network):
    snapshot = cache(shards=1)
    (tmp_path / "secret").write_text('{"model_type": "qwen2"}')
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(tmp_path / "secret")
    with pytest.raises(CheckpointError, match="leaves the model's folder"):
        HfSource().open(str(snapshot), OpenOptions())


PARTS = ["config.json", "tokenizer.json", "model-00002-of-00002.safetensors"]


@pytest.mark.parametrize("lost", PARTS)
def test_a_partial_cache_is_not_taken_for_a_model(cache, tmp_path, at, lost):
    """LOAD-10."""
    snapshot = cache()
    (snapshot / lost).unlink()
    assert hub.missing(snapshot) == [lost]
    with at("http://127.0.0.1:9"), pytest.raises(CheckpointError, match="not complete in the cache, and fetching it"):
        open_id("Acme/Tiny-1", tmp_path)


@pytest.mark.parametrize("lost", PARTS)
def test_offline_a_partial_cache_is_named_at_once(cache, tmp_path, monkeypatch, no_network, lost):
    """LOAD-10."""
    (cache() / lost).unlink()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match="HF_HUB_OFFLINE forbids to fetch it") as refused:
        open_id("Acme/Tiny-1", tmp_path)
    assert (f"lacks {lost} in the cache" in str(refused.value)) or lost == "config.json"


def test_offline_a_complete_cache_is_taken_and_said(cache, tmp_path, monkeypatch, no_network):
    """LOAD-10."""
    cache()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    said = []
    assert open_id("Acme/Tiny-1", tmp_path, say=said.append).name == "Acme/Tiny-1"
    assert said == ["Acme/Tiny-1 is in the cache, commit 01234567; ORG/NAME@REVISION takes another"]


def test_a_damaged_index_in_the_cache_is_named(cache, tmp_path, no_network):
    index = cache() / "model.safetensors.index.json"
    index.resolve().write_text("{")
    with pytest.raises(CheckpointError, match=r"model\.safetensors\.index\.json: is not JSON"):
        open_id("Acme/Tiny-1", tmp_path)


def test_without_network_and_cache_it_fails_at_once(tmp_path, at):
    with at("http://127.0.0.1:9"), pytest.raises(CheckpointError, match=r"use a folder, a \.gguf file, or a model in"):
        open_id("Qwen/Qwen2.5-0.5B-Instruct", tmp_path)


def test_a_hub_that_does_not_answer_is_given_up(tmp_path, at, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(hub, "TIMEOUT", 0.3)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with at(address), pytest.raises(CheckpointError, match="fetching it failed"):
            open_id("Acme/Tiny-1", tmp_path)


def test_offline_mode_is_kept(tmp_path, monkeypatch, no_network):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=r"is not in the cache .* and HF_HUB_OFFLINE forbids"):
        open_id("Acme/Tiny-1", tmp_path)


@pytest.mark.parametrize(
    "reference",
    ["hf:", "hf:a/b/c", "hf:../x", "hf:a/b@", "hf:-a/b", "hf:a b/c", "hf:a--b/c", "hf:a/b@../../x", "hf:a/b@x\n"],
)
def test_what_is_no_id_is_refused(tmp_path, no_network, reference):
    with pytest.raises(CheckpointError, match=r"not of the form|no hub id"):
        open_id(reference, tmp_path)


@pytest.fixture
def at(monkeypatch):
    """``with at(address):`` the hub is there."""

    @contextmanager
    def at(address):
        with monkeypatch.context() as inside:
            inside.setenv("HF_ENDPOINT", address)
            inside.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
            inside.delenv("HF_HUB_OFFLINE", raising=False)
            inside.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
            inside.delenv("HF_TOKEN", raising=False)
            yield inside

    return at


@pytest.fixture
def server(folder):
    """A model with much beside it that isn't needed."""
    files = {file.name: file.read_bytes() for file in folder().iterdir()}
    extra = {
        **{"pytorch_model.bin": b"pickle", "modeling.py": b"code", "README.md": b"words", "vocab.json": b"{}"},
        **{"model.fp16.safetensors": b"another", "original/params.json": b"{}", "onnx/config.json": b"{}"},
        **{"consolidated.safetensors": b"again", "chat_template.jinja": b"J", "tokenizer_config.json": b"{}"},
        **{"generation_config.json": b'{"eos_token_id": 7}', "additional_chat_templates/rag.jinja": b"R"},
    }
    with serving(files | extra) as made:
        yield made


NEEDED = {
    *("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"),
    *("rag.jinja", "model.safetensors"),
}


def fetched(tmp_path) -> set[str]:
    return {path.name for path in (tmp_path / "hub").rglob("snapshots/*/**/*") if path.is_file()}


def test_a_model_is_fetched_without_anything_it_does_not_need(server, tmp_path, at):
    address, served = server
    said = []
    with at(address):
        checkpoint = open_id("hf:Acme/Served", tmp_path, say=said.append)
    assert checkpoint.name == "Acme/Served"
    assert checkpoint.chat_templates == {"default": "J", "rag": "R"}
    assert checkpoint.generation == {"eos_token_id": 7}
    assert fetched(tmp_path) == {path.rpartition("/")[2] for path in served.asked} == NEEDED
    size = len(served.files["model.safetensors"])
    assert said[0] == f"fetching Acme/Served from the hub: 1 files of weights, {size / 1e6:.1f} MB"


def test_what_was_fetched_needs_no_network_again(server, tmp_path, at, no_network_later):
    with at(server[0]):
        open_id("Acme/Served", tmp_path)
    no_network_later()
    for reference in ("Acme/Served", "Acme/Served@main", f"Acme/Served@{COMMIT}"):
        assert open_id(reference, tmp_path).read("a.weight").shape == (5, 8)


@pytest.fixture
def sharded(folder):
    path = folder(shards=2)
    with serving({file.name: file.read_bytes() for file in path.iterdir()}) as made:
        yield made


def test_shards_are_fetched_as_the_index_names_them(sharded, tmp_path, at):
    with at(sharded[0]):
        checkpoint = open_id("Acme/Served", tmp_path)
    assert checkpoint.read("d.weight").shape == (2, 2)


def test_an_index_that_names_what_is_not_there(sharded, tmp_path, at):
    """LOAD-04."""
    del sharded[1].files["model-00002-of-00002.safetensors"]
    with (
        at(sharded[0]),
        pytest.raises(CheckpointError, match=r"names model-00002-of-00002\.safetensors, which"),
    ):
        open_id("Acme/Served", tmp_path)


def test_a_shard_that_is_cached_is_not_fetched_again(sharded, tmp_path, at):
    with at(sharded[0]):
        path = open_id("Acme/Served", tmp_path)._folder
        (path / "model-00002-of-00002.safetensors").resolve().unlink()
        sharded[1].asked.clear()
        said = []
        open_id("Acme/Served", tmp_path, say=said.append)
    assert sharded[1].asked == ["model-00002-of-00002.safetensors"]
    assert "1 files of weights" in said[0]
    assert said[0].endswith("1 are cached already")


def test_a_connection_that_breaks_goes_on_where_it_was(server, tmp_path, at):
    address, served = server
    served.files["model.safetensors"] = save({"a": torch.zeros(4 << 20)})
    served.breaks["model.safetensors"] = 12 << 20  # the client writes 10 MiB at once
    said = []
    with at(address):
        checkpoint = open_id("Acme/Served", tmp_path, say=said.append)
    assert served.asked[-2:] == ["model.safetensors", "model.safetensors@10485760"]
    assert checkpoint.read("a").shape == (4 << 20,)
    assert any("Trying to resume download" in line for line in said)


class Cancelled(Exception):
    pass


def test_fetching_can_be_given_up_and_leaves_a_cache_that_is_not_taken_for_a_model(server, tmp_path, at):
    """An interrupted download: nothing goes on, and the next one completes it (LOAD-04, LOAD-10)."""
    address, served = server
    served.stalls["model.safetensors"] = threading.Event()
    before = set(psutil.Process().children())

    def check():
        if "model.safetensors" in served.asked:
            raise Cancelled

    with at(address):
        with pytest.raises(Cancelled):
            open_id("Acme/Served", tmp_path, check=check)
        assert set(psutil.Process().children()) <= before
        assert "model.safetensors" not in fetched(tmp_path)
        served.stalls.pop("model.safetensors").set()
        assert open_id("Acme/Served", tmp_path).read("a.weight").shape == (5, 8)


def test_progress_is_in_bytes_of_what_is_still_to_come(server, tmp_path, at, monkeypatch):
    address, served = server
    served.files["model.safetensors"] = save({"a": torch.zeros(6 << 20)})  # the client writes 10 MiB at once
    held, tasks = served.stalls.setdefault("model.safetensors", threading.Event()), []

    @contextmanager
    def task(name, total):
        seen = []
        tasks.append((name, total, seen))
        yield seen.append

    def check():
        if tasks and max(tasks[0][2], default=0) > 1 << 20:
            held.set()

    monkeypatch.setattr("tcplug_hf.fetching.EVERY", 0.02)
    with at(address):
        open_id("Acme/Served", tmp_path, task=task, check=check)
    (name, total, seen), size = tasks[0], len(served.files["model.safetensors"])
    assert (name, total, len(tasks)) == ("fetching Acme/Served", size, 1)
    assert seen == sorted(seen)
    assert seen[-1] >= size


def test_progress_never_goes_back(server, tmp_path, at, monkeypatch):
    """A file that is given its name during a look isn't seen in that one."""
    looks, seen = itertools.count(), []

    @contextmanager
    def task(name, total):
        yield seen.append

    monkeypatch.setattr(fetching, "EVERY", 0.02)
    monkeypatch.setattr(fetching, "held_bytes", lambda folder: held_bytes(folder) * (next(looks) % 3 > 0))
    with at(server[0]):
        open_id("Acme/Served", tmp_path, task=task)
    assert seen
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("Acme/Gated", "is gated: accept its terms on its page, then log in .* or set HF_TOKEN"),
        ("Acme/Absent", "is not on the hub, or private"),
        ("Acme/Private", "is not on the hub, or private; .* set HF_TOKEN"),
        ("hf:Acme/Absent@v9", "no such revision"),
    ],
)
def test_a_hub_that_refuses_is_explained(server, tmp_path, at, reference, words):
    with at(server[0]), pytest.raises(CheckpointError, match=words):
        open_id(reference, tmp_path)


def test_the_token_opens_a_private_model(server, tmp_path, at):
    with at(server[0]) as environment:
        environment.setenv("HF_TOKEN", TOKEN)
        assert open_id("Acme/Private", tmp_path).name == "Acme/Private"


def test_a_model_without_safetensors_is_refused_before_it_is_fetched(server, tmp_path, at):
    """SEC-09."""
    address, served = server
    served.files = {"pytorch_model.bin": b"pickle", "config.json": b"{}"}
    with at(address), pytest.raises(CheckpointError, match=r"it has pytorch_model\.bin; safetensors or GGUF only"):
        open_id("Acme/Served", tmp_path)
    assert served.asked == []


@pytest.mark.parametrize("trusted", [False, True])
def test_code_is_fetched_only_where_it_is_trusted_and_needed(server, tmp_path, at, trusted):
    address, served = server
    del served.files["tokenizer.json"]
    served.files["own.tiktoken"] = b"pieces"
    with at(address):
        open_id("Acme/Served", tmp_path, trust_remote_code=trusted)
    more = {"vocab.json", "own.tiktoken"} | ({"modeling.py"} if trusted else set())
    assert fetched(tmp_path) == (NEEDED - {"tokenizer.json"}) | more


def test_why_nothing_can_be_fetched(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert HfSource().unreachable(5).startswith("HF_HUB_OFFLINE forbids to fetch models")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        assert HfSource().unreachable(5).startswith(f"{address} doesn't answer (Connect")
        silent.listen()
        assert "Timeout" in HfSource().unreachable(0.3)
    with serving({}) as (address, _):
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        assert HfSource().unreachable(60) is None


def test_downloads_are_kept_where_the_hubs_client_keeps_them(tmp_path):
    assert HfSource().folder(OpenOptions(cache_dir=str(tmp_path))) == str(tmp_path)
    assert HfSource().folder(OpenOptions()) == str(Path(huggingface_hub.constants.HF_HUB_CACHE).absolute())
