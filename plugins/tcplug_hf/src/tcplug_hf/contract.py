"""What the contract of checkpoints asks of an author: folders of given tensors, written by the safetensors library."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file

from truecluster.testing.checkpoint import CheckpointContract, Tensors

TOKENIZER = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}


class TestOneFile(CheckpointContract):
    offer, data = "hf", "*.safetensors"

    def write(self, folder: Path, tensors: Tensors) -> Path:
        place = folder / "model"
        place.mkdir()
        (place / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
        (place / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        self.write_weights(place, tensors)
        return place

    def write_weights(self, folder: Path, tensors: Tensors) -> None:
        """The files beside those of the config and the tokenizer."""
        save_file(dict(tensors), folder / "model.safetensors")


class TestShards(TestOneFile):
    def write_weights(self, folder: Path, tensors: Tensors) -> None:
        """The first tensor in a file of its own, the index, and the others."""
        first, *others = tensors
        places = dict.fromkeys(others, "model-00002-of-00002.safetensors") | {first: "model-00001-of-00002.safetensors"}
        for place in set(places.values()):
            save_file({name: tensors[name] for name in tensors if places[name] == place}, folder / place)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
