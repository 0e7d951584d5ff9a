"""What attention is said to take, against the storages that live at once while it runs."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from truecluster.nn import Attend, attend_bytes, reference
from truecluster.nn.reference import _softmax_mix


class Largest(TorchDispatchMode):
    """Most bytes of new storages at once."""

    def __init__(self):
        super().__init__()
        self.live, self.most = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            storage = result.untyped_storage()
            key = storage._cdata
            if key not in self.live:
                self.live[key] = storage.nbytes()
                weakref.finalize(storage, self.live.pop, key, None)
            self.most = max(self.most, sum(self.live.values()))
        return result


@pytest.mark.parametrize(("heads", "kv_heads", "dim", "tokens"), [(4, 2, 16, 64), (14, 2, 64, 256), (8, 8, 32, 128)])
def test_attention_takes_what_is_planned(heads, kv_heads, dim, tokens):
    end = 1024
    q, keys, values = torch.randn(tokens, heads, dim), *(torch.randn(end, kv_heads, dim) for _ in range(2))
    with torch.inference_mode(), Largest() as seen:
        _softmax_mix(q, keys, values, torch.arange(end - tokens, end), 0.1, None)
    gathered = 4 * 2 * end * kv_heads * dim
    claimed = attend_bytes(Attend(heads, kv_heads, dim, 0.1), tokens, end) - gathered
    assert seen.most <= 1.1 * claimed
    assert claimed <= 2 * seen.most


def test_scores_of_a_long_context_come_in_tiles(monkeypatch):
    """In tiles of one token and of three they give what they give at once."""
    q, keys, values = torch.randn(7, 4, 16), torch.randn(50, 2, 16), torch.randn(50, 2, 16)
    arguments = (q, keys, values, torch.arange(43, 50), 0.25, 20)
    whole = _softmax_mix(*arguments)
    for tokens in (1, 3):
        monkeypatch.setattr(reference, "SCORE_BYTES", 4 * 4 * 50 * tokens)
        torch.testing.assert_close(_softmax_mix(*arguments), whole)
    assert attend_bytes(Attend(4, 2, 16, 0.25), 7, 50) == 50 * 3 * (2 * 4 * 4 + 8) + 4 * 50 * 16 * 4 * (2 + 4)
