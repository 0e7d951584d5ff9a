"""The benchmark runs; what it finds is for people."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from tcplug_cpu_kernels.bench import decoder, linears, peer
from tcplug_cpu_kernels.native import path

pytestmark = pytest.mark.skipif(path() is None, reason="the library wasn't built: there is no C compiler")


def test_a_small_decoder_is_measured():
    shape = decoder.Shape(layers=2, hidden=64, heads=2, kv_heads=1, head_dim=64, inner=96, vocab=50)
    model = decoder.Decoder(shape, "int4.g32.asym", "int8")
    with torch.inference_mode():
        assert model.step(0, 5).shape == (1, 50)
        assert model.step(0, 5).isfinite().all()
        found = decoder.measure(model, 2)
    assert set(found) == {
        *("token_ms", "linears_ms", "around_ms", "best_token_ms", "best_around_ms", "prefill_tok_s"),
    }
    assert found["token_ms"] > 0


def test_a_small_linear_is_measured_in_every_format(monkeypatch):
    monkeypatch.setattr(linears, "UNCACHED", 0)
    found = linears.measure(8, 64, 2)
    assert set(found) == {"torch", *linears.FORMATS}
    assert all(set(times) == {"1", "4", "16", "128"} for times in found.values())


def test_a_peer_is_read_from_its_json(tmp_path):
    rows = [{"n_prompt": 128, "n_gen": 0, "avg_ts": 150.0}, {"n_prompt": 0, "n_gen": 64, "avg_ts": 40.0}]
    program = tmp_path / "llama-bench"
    program.write_text(f"#!{sys.executable}\nprint('''{json.dumps(rows)}''')\n")
    program.chmod(0o755)
    theirs = peer.run(str(program), "model.gguf", 2)
    assert theirs == {"prefill_tok_s": 150.0, "decode_tok_s": 40.0}
    compared = peer.compare(lambda: {"token_ms": 20.0, "prefill_tok_s": 75.0}, lambda: theirs, 3)
    assert compared["decode_tok_s"] == {"ours": 50.0, "peer": 40.0, "share": 1.25}
    assert compared["prefill_tok_s"]["share"] == 0.5
