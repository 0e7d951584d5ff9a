"""The Hugging Face plugin keeps the contracts of checkpoints and of formats, and reads what transformers saves."""

from __future__ import annotations

import pytest
import torch
from tcplug_hf.contract import *  # noqa: F403
from tcplug_hf.format_contract import *  # noqa: F403
from tcplug_hf.source import HfSource

from truecluster.api import CheckpointError, OpenOptions


def test_what_transformers_saves_is_read_to_the_bit(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=40, num_key_value_heads=2, **sizes))
    model.save_pretrained(tmp_path / "saved", max_shard_size="16KB")
    with HfSource().open(str(tmp_path / "saved"), OpenOptions()) as checkpoint:
        assert set(checkpoint.tensors) == set(model.state_dict())
        for name, tensor in model.state_dict().items():
            read = checkpoint.read(name)
            assert read.shape == tuple(tensor.shape)
            assert torch.equal(read.data, tensor.detach().reshape(-1).view(torch.uint8))
        with pytest.raises(CheckpointError):
            checkpoint.tokenizer()
