"""Qwen2, and llama as it hosts it, under the contracts that they are checked with."""

import pytest
from tcplug_qwen2.contract import *  # noqa: F403
from tcplug_qwen2.model import Qwen2

TINY = {
    "vocab_size": 97,
    "hidden_size": 56,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


@pytest.mark.parametrize(("used", "windows"), [(True, [None, 4, 4]), (False, [None, None, None])])
def test_windows_are_of_global_layers(used, windows):
    """LOAD-09: layers from ``max_window_layers`` on slide, only where ``use_sliding_window`` is set."""
    sliding = {"use_sliding_window": used, "sliding_window": 4, "max_window_layers": 1}
    config = Qwen2().config({**TINY, **sliding})
    assert [Qwen2().state(config, layer).sliding for layer in range(3)] == windows


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_both_spellings_of_the_dtype(key):
    assert Qwen2().config({**TINY, key: "bfloat16"}).dtype.value == "bf16"
