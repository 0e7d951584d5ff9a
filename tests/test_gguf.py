"""GGUF files of random models, over two stages, give the tokens that transformers gives with the same weights."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from clusters import Layout, agreement, cluster
from tiny_ggufs import asked, network, write_gguf

from truecluster._cluster.model import ModelOptions, load_model
from truecluster._registry import Registry
from truecluster.api import PluginError

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
BAND = ("low_freq_factor", "high_freq_factor")


def factors(dim: int, theta: float) -> np.ndarray[Any, Any]:
    """What llama.cpp's converter writes for Llama 3's rule: by how much each frequency is divided."""
    found = []
    for i in range(0, dim, 2):
        wavelength = 2 * math.pi * theta ** (i / dim)
        old, low, high = (
            LLAMA3["original_max_position_embeddings"],
            LLAMA3["low_freq_factor"],
            LLAMA3["high_freq_factor"],
        )
        if wavelength < old / high:
            found.append(1.0)
        elif wavelength > old / low:
            found.append(LLAMA3["factor"])
        else:
            smooth = (old / wavelength - low) / (high - low)
            found.append(1 / ((1 - smooth) / LLAMA3["factor"] + smooth))
    return np.array(found, dtype=np.float32)


@attrs.frozen(eq=False)
class Variant:
    """A family, transformers' config, and what the file has besides."""

    family: str
    config: dict[str, Any] = attrs.field(factory=dict)
    keys: dict[str, Any] = attrs.field(factory=dict)
    vectors: dict[str, Any] = attrs.field(factory=dict)
    kind: str = "F32"
    pieces: int = 0


def rope(kind: str, **numbers: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **numbers}}


YARN = {"factor": 4.0, "original_max_position_embeddings": 64}
YARN_KEYS = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}
OWN = {"attention_factor": 0.8, "beta_fast": 16.0, "beta_slow": 2.0}
OWN_KEYS = {
    "rope.scaling.yarn_attn_factor": 0.8,
    "rope.scaling.yarn_beta_fast": 16.0,
    "rope.scaling.yarn_beta_slow": 2.0,
}
VARIANTS = {
    "llama": Variant("llama"),
    "llama tied": Variant("llama", {"tie_word_embeddings": True}),
    "llama tied in Q8_0 (GGUF-09)": Variant("llama", {"tie_word_embeddings": True}, kind="Q8_0"),
    "llama linear": Variant(
        "llama", rope("linear", factor=4.0), {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    ),
    "llama with a factor alone": Variant("llama", rope("linear", factor=4.0), {"rope.scaling.factor": 4.0}),
    "llama yarn": Variant("llama", rope("yarn", **YARN), YARN_KEYS),
    "llama yarn with its own numbers": Variant("llama", rope("yarn", **YARN, **OWN), {**YARN_KEYS, **OWN_KEYS}),
    "llama 3's factors": Variant("llama", rope("llama3", **LLAMA3), vectors={"rope_freqs.weight": factors(16, 1e4)}),
    "llama with biases": Variant("llama", {"attention_bias": True, "mlp_bias": True}),
    "qwen2": Variant("qwen2"),
    "qwen2 yarn": Variant("qwen2", rope("yarn", **YARN), YARN_KEYS),
    "qwen2 sliding": Variant(
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 0},
        {"attention.sliding_window": 24},
    ),
    "qwen2 in F16": Variant("qwen2", kind="F16"),
    "qwen2 in Q5_1": Variant("qwen2", kind="Q5_1"),
    "llama in MXFP4": Variant("llama", kind="MXFP4"),
    "llama in TQ2_0": Variant(
        "llama", {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 8}, kind="TQ2_0"
    ),
    "llama in pieces": Variant("llama", pieces=9),
}


def written(variant: Variant, folder: Path) -> tuple[Path, Any]:
    made = network(variant.family, **{"tie_word_embeddings": False, **variant.config})
    write_gguf(folder / "tiny.gguf", made, variant.keys, variant.kind, variant.vectors, variant.pieces)
    return min(folder.glob("*.gguf")), made


@pytest.mark.parametrize("name", VARIANTS)
def test_tokens_are_transformers(name: str, tmp_path: Path) -> None:
    path, made = written(VARIANTS[name], tmp_path)
    cases = [asked(made, length=length, seed=length) for length in (200, 40)]
    layout = Layout(nodes=2, transport="memory", head="last-stage")
    with cluster(path, tmp_path / "work", layout, quant="native") as running:
        found = agreement(running, cases)
    assert found.decidable > 12
    assert found.equal == found.decidable


def test_the_compute_dtype_is_that_of_the_matrices(tmp_path: Path) -> None:
    path, _ = written(VARIANTS["qwen2 in F16"], tmp_path)
    assert load_model(Registry.installed(), ModelOptions(reference=str(path), work_dir=tmp_path)).dtype.value == "fp16"


@pytest.mark.parametrize("kind", [42, 153, 41])
def test_an_unknown_type_ends_at_plan_time(tc_here: Any, tmp_path: Path, kind: int) -> None:
    """GGUF-01: before a worker is started, with one line."""
    path, _ = written(VARIANTS["llama"], tmp_path)
    raw = bytearray(path.read_bytes())
    name = b"blk.1.attn_q.weight"
    place = raw.index(name) + len(name) + 4 + 2 * 8
    assert struct.unpack_from("<I", raw, place) == (0,)
    struct.pack_into("<I", raw, place, kind)
    path.write_bytes(raw)
    for command in (["run", "--model", path, "hello"], ["plan", "--model", path, "--node", "cpu:1GB"]):
        ended = tc_here(*command)
        assert ended.code == 2
        assert f"tensor 'blk.1.attn_q.weight' uses quantisation type {kind}" in ended.err
        assert "supported: F32, F16, BF16, Q4_0" in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("family", ["mamba", "gemma"])
def test_an_unknown_architecture_is_refused(tmp_path: Path, family: str) -> None:
    """GGUF-07."""
    path, _ = written(VARIANTS["llama"], tmp_path)
    path.write_bytes(path.read_bytes().replace(b"llama", family.encode(), 1))
    with pytest.raises(PluginError, match=f"no installed architecture runs model type '{family}'"):
        load_model(Registry.installed(), ModelOptions(reference=str(path), work_dir=tmp_path))


def test_the_helper_writes_what_transformers_computes(tmp_path: Path) -> None:
    """The factors are those of transformers' rule."""
    inverse = network("llama", **rope("llama3", **LLAMA3)).model.rotary_emb.inv_freq
    plain = 1e4 ** -(torch.arange(0, 16, 2) / 16)
    torch.testing.assert_close(plain / inverse, torch.from_numpy(factors(16, 1e4)))
