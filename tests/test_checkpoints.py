"""Models as they come from the hub, over real processes: the tokens that transformers gives, or a plain refusal."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands import Commands, Ended, wait_gone
from goldens import SHAKY
from refusals import refused
from tiny_checkpoints import END, tensors, write_tiny

PROMPT = "The window ends long before this prompt does, and decoding goes on behind it."
TOKENS = 40
SLIDING = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}


def tied() -> dict[str, Any]:
    """Weights without an output matrix; the end's row of the embedding does for the head."""
    weights = tensors()
    del weights["lm_head.weight"]
    weights["model.embed_tokens.weight"][END] = 0
    return weights


def write_default(folder: Path) -> Path:
    return write_tiny(folder)


def write_tied(folder: Path) -> Path:
    return write_tiny(folder, tied(), tie_word_embeddings=True)


def write_sliding(folder: Path) -> Path:
    return write_tiny(folder, **SLIDING)


def write_yarn(folder: Path) -> Path:
    return write_tiny(folder, rope_scaling=YARN, rope_theta=1000000.0)


def write_wide(folder: Path) -> Path:
    """fp64 and fp8 elements."""
    import torch

    weights = {name: tensor.to(torch.float64) for name, tensor in tensors().items()}
    up = "model.layers.1.mlp.up_proj.weight"
    return write_tiny(folder, {**weights, up: weights[up].to(torch.float8_e4m3fn)}, torch_dtype="float64")


def theirs(folder: Path, ids: list[int]) -> Iterator[tuple[int, float]]:
    """transformers' greedy tokens in fp32, with the margin between the two best logits."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoConfig, Qwen2ForCausalLM

    network = Qwen2ForCausalLM(AutoConfig.from_pretrained(folder, attn_implementation="eager")).float().eval()
    weights = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    left_out = network.load_state_dict(weights, strict=False)
    assert set(left_out.missing_keys) <= {"lm_head.weight"}
    assert not left_out.unexpected_keys
    network.tie_weights()
    for _ in range(TOKENS):
        with torch.no_grad():
            best = network(torch.tensor([ids])).logits[0, -1].topk(2)
        ids = [*ids, int(best.indices[0])]
        yield ids[-1], float(best.values[0] - best.values[1])


@pytest.mark.parametrize(
    ("write", "head", "prompt"),
    [
        (write_tied, "last-stage", "abc"),
        (write_sliding, "coordinator", PROMPT),
        (write_yarn, "coordinator", PROMPT),
        (write_wide, "coordinator", PROMPT),
    ],
    ids=["tied", "sliding", "yarn", "fp64-fp8"],
)
def test_two_workers_give_transformers_tokens(
    tc: Commands, tmp_path: Path, write: Callable[[Path], Path], head: str, prompt: str
) -> None:
    """LOAD-01: the last worker has no layer 0 and a tied head. LOAD-09: windows by global layer, over workers."""
    folder = write(tmp_path / "model")
    arguments = ["--head", head, "--max-tokens", TOKENS, "--quant", "fp32", "--temperature", 0, "--raw", "--json"]
    ended = tc.run("run", "--model", folder, *arguments, prompt)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["token_ids"]
    for step, (expected, margin) in enumerate(theirs(folder, list(prompt.encode()))):
        if margin < SHAKY:
            break
        assert found[step] == expected, step
    assert step > 3


def test_windows_change_what_is_said(tc_here: Callable[..., Ended], tmp_path: Path) -> None:
    """Or the test above would show nothing (LOAD-09)."""
    plain, sliding = (
        [id for id, _ in theirs(write(tmp_path / write.__name__), list(PROMPT.encode()))]
        for write in (write_default, write_sliding)
    )
    assert plain != sliding


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickles_are_refused(tc_here: Callable[..., Ended], tmp_path: Path, name: str) -> None:
    """SEC-09: no fallback, and nothing of the file is read."""
    folder = write_tiny(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    refused(tc_here("plan", "--model", folder, "--node", "cpu"), name, "safetensors or GGUF only")


@pytest.mark.parametrize(("dtype", "word"), [("int8", "i8"), ("int64", "i64"), ("bool", "bool")])
def test_integers_are_no_weights(tc_here: Callable[..., Ended], tmp_path: Path, dtype: str, word: str) -> None:
    import torch

    name = "model.layers.2.mlp.down_proj.weight"
    weights = tensors()
    write_tiny(tmp_path / "model", {**weights, name: weights[name].to(getattr(torch, dtype))})
    refused(tc_here("plan", "--model", tmp_path / "model", "--node", "cpu"), name, f"safetensors.{word}", "not read")


def cached(folder: Path, cache: Path) -> None:
    """Put a model into a hub's cache, as its client does: the snapshot's files are links to blobs."""
    place = cache / "models--Acme--Tiny"
    snapshot, commit = place / "snapshots" / ("a" * 40), place / "refs" / "main"
    for made in (snapshot, place / "blobs", commit.parent):
        made.mkdir(parents=True)
    commit.write_text("a" * 40)
    for index, file in enumerate(sorted(folder.iterdir())):
        (place / "blobs" / f"{index:040x}").write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(f"../../blobs/{index:040x}")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("tcplug_hf.hub.fetch", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.usefixtures("no_network")
def test_offline_every_way_to_name_a_model_works(
    tc_here: Callable[..., Ended], tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOAD-10: ids in a symlinked cache, and folders of every spelling, with no network."""
    cached(tiny, tmp_path / "hub")
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "tiny").symlink_to(tiny)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for reference in ("Acme/Tiny", "hf:Acme/Tiny@main", "my models/tiny", "~/my models/tiny/", "./my models/tiny"):
        ended = tc_here("plan", "--model", reference, "--hf-cache-dir", "~/hub", "--node", "cpu", "--json")
        assert ended.code == 0, (reference, ended.err)
        assert json.loads(ended.out)["stages"], reference


@pytest.mark.usefixtures("no_network")
def test_offline_a_partial_cache_is_refused(tc_here: Callable[..., Ended], tiny: Path, tmp_path: Path) -> None:
    """LOAD-10."""
    cached(tiny, tmp_path / "hub")
    next((tmp_path / "hub").rglob("model.safetensors")).unlink()
    ended = tc_here("plan", "--model", "Acme/Tiny", "--hf-cache-dir", tmp_path / "hub", "--node", "cpu")
    refused(ended, "Acme/Tiny", "lacks model.safetensors in the cache", "HF_HUB_OFFLINE")


class Stalling(BaseHTTPRequestHandler):
    """A hub that never comes to the end of anything."""

    asked = threading.Event()
    over = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.asked.set()
        self.over.wait(60)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def stalling_hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stalling) as made:
        made.daemon_threads = True
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        Stalling.over.set()
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("command", [["run", "Hello"], ["cluster", "--node-port", 0, "--api-port", 0]])
def test_a_signal_ends_a_download(tc: Commands, command: list[Any]) -> None:
    Stalling.asked.clear()
    Stalling.over.clear()
    with stalling_hub() as address:
        env = {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0"}
        started = tc.start(*command, "--model", "Acme/Large", "--hf-cache-dir", tc.folder / "hub", env=env)
        assert Stalling.asked.wait(60)
        family = started.family()
        assert started.send(signal.SIGINT).code == 130
        assert not wait_gone(family)


CODE = """
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

class LettersTokenizer(PreTrainedTokenizerFast):
    def __init__(self, **options):
        library = Tokenizer(models.BPE(vocab={chr(i): i for i in range(128)}, merges=[]))
        library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        library.decoder = decoders.Fuse()
        library.add_special_tokens([AddedToken(text, special=True) for text in ("<s>", "<e>", "<pad>", "<end>")])
        super().__init__(tokenizer_object=library, **options)
"""


def test_a_tokenizer_of_the_authors_own_needs_trust(tc: Commands, tmp_path: Path) -> None:
    """The same tokens as with ``tokenizer.json``, and only where ``--trust-remote-code`` is typed."""
    folder = write_tiny(tmp_path / "own")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenization_letters.py").write_text(CODE)
    facts = json.loads((folder / "tokenizer_config.json").read_text())
    own = {"auto_map": {"AutoTokenizer": [None, "tokenization_letters.LettersTokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts | own))
    arguments = ["run", "--model", folder, "--max-tokens", 5, "--json", "--nodes", 1, "Hello"]
    env = {"HF_HOME": str(tmp_path / "hf")}
    refused(tc.run(*arguments, env=env), "no tokenizer.json", "add --trust-remote-code")
    trusted = tc.run(*arguments, "--trust-remote-code", env=env)
    assert trusted.code == 0, trusted.err
    plain = tc.run("run", "--model", write_tiny(tmp_path / "plain"), *arguments[3:])
    assert json.loads(trusted.out)["token_ids"] == json.loads(plain.out)["token_ids"]
