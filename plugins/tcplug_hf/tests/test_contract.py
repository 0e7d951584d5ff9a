"""The Hugging Face plugin keeps the contract of checkpoints: one file, shards, and what transformers saves."""

from __future__ import annotations

import pytest
from tcplug_hf.source import HfSource

from truecluster.testing.checkpoint import CheckpointContract


class _Folder(CheckpointContract):
    data = "*.safetensors"

    @pytest.fixture
    def source(self):
        return HfSource()

    @pytest.fixture
    def expected(self, written):
        return written


class TestOneFile(_Folder):
    @pytest.fixture
    def reference(self, folder):
        return folder()


class TestShards(_Folder):
    @pytest.fixture
    def reference(self, folder):
        return folder(shards=2)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=40, num_key_value_heads=2, **sizes))
    place = tmp_path_factory.mktemp("saved") / "llama"
    model.save_pretrained(place, max_shard_size="16KB")
    return place, {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


class TestSavedByTransformers(_Folder):
    has_tokenizer = False

    @pytest.fixture
    def reference(self, saved):
        return saved[0]

    @pytest.fixture
    def expected(self, saved):
        return saved[1]
