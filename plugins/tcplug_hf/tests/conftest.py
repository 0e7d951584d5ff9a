"""Small folders in the hub's layout, and a hub's cache, written by hand or by transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

CONFIG = {"model_type": "qwen2", "hidden_size": 8}
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    "post_processor": None,
}
REVISION = "0123456789abcdef0123456789abcdef01234567"


def tensors() -> dict[str, torch.Tensor]:
    """One of each element type; the second file's alphabet is later, so shards keep the order."""
    random = torch.Generator().manual_seed(11)
    return {
        "a.weight": torch.randn(5, 8, generator=random),
        "b.weight": torch.randn(3, 4, generator=random).half(),
        "c.weight": torch.randn(7, generator=random).bfloat16(),
        "d.weight": torch.randn(2, 2, generator=random),
    }


def write(folder: Path, shards: int = 1, files: dict[str, object] | None = None) -> Path:
    """A folder with config, tokenizer and weights; ``files`` are more, texts or JSON; ``None`` takes one away."""
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, shards)
    for name, value in {"config.json": CONFIG, "tokenizer.json": TOKENIZER, **(files or {})}.items():
        if value is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def write_weights(folder: Path, shards: int) -> None:
    if shards == 1:
        return save_file(tensors(), folder / "model.safetensors")
    names, places = list(tensors()), {}
    for index in range(shards):
        file = f"model-{index + 1:05}-of-{shards:05}.safetensors"
        part = names[index * len(names) // shards : (index + 1) * len(names) // shards]
        save_file({name: tensors()[name] for name in part}, folder / file)
        places.update(dict.fromkeys(part, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def write_cache(cache: Path, id: str = "Acme/Tiny-1", shards: int = 2) -> Path:
    """A hub's cache: the snapshot's files are links into ``blobs``. Returns the snapshot."""
    repository = cache / f"models--{id.replace('/', '--')}"
    made = write(repository / "made", shards)
    snapshot, blobs = repository / "snapshots" / REVISION, repository / "blobs"
    for folder in (snapshot, blobs, repository / "refs"):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    for index, path in enumerate(sorted(made.iterdir())):
        path.rename(blobs / f"{index:040x}")
        (snapshot / path.name).symlink_to(f"../../blobs/{index:040x}")
    made.rmdir()
    return snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """``folder(shards=…, files=…)`` writes ``tmp_path/tiny`` and returns it."""
    return lambda **options: write(tmp_path / "tiny", **options)


@pytest.fixture
def cache(tmp_path: Path) -> Callable[..., Path]:
    """``cache(id=…, shards=…)`` writes the cache ``tmp_path/hub`` and returns the snapshot."""
    return lambda **options: write_cache(tmp_path / "hub", **options)
