"""Small GGUF files, written by the gguf package, and the real ones where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tcplug_gguf.format_contract import BLOCKS, TYPES, random_blocks


def byte_tokens() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes, in the order of the bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(moved)) for byte in range(256)]


MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o"]
TOKENS = [
    *byte_tokens(),
    *(merge.replace(" ", "") for merge in MERGES),
    "<|im_start|>",
    "<|im_end|>",
    "<tool>",
    "[PAD]",
]
KINDS = [1] * (256 + len(MERGES)) + [3, 3, 4, 5]
END = TOKENS.index("<|im_end|>")


class Tiny:
    """Writes a small file; ``keys`` replace or, where ``None``, remove the usual ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def usual(self) -> dict[str, object]:
        """The keys of a file that lacks nothing."""
        return {
            "general.languages": ["en", "de"],
            "qwen2.block_count": 2,
            "qwen2.rope.freq_base": 1e6,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "qwen2",
            "tokenizer.ggml.tokens": TOKENS,
            "tokenizer.ggml.merges": MERGES,
            "tokenizer.ggml.token_type": KINDS,
            "tokenizer.ggml.bos_token_id": TOKENS.index("<|im_start|>"),
            "tokenizer.ggml.eos_token_id": END,
            "tokenizer.ggml.add_bos_token": False,
            "tokenizer.chat_template": "{{ messages }}",
            "tokenizer.chat_template.tool_use": "{{ tools }}",
        }

    def write(self, name: str = "tiny-model.gguf", tensors: bool = True, **options: object) -> Path:
        """``options``: ``keys``, and ``alignment``."""
        path = self.folder / name
        writer = gguf.GGUFWriter(path, "qwen2")
        if "alignment" in options:
            writer.add_custom_alignment(options["alignment"])
        for key, value in {**self.usual(), **options.get("keys", {})}.items():
            self._add(writer, key, value)
        if tensors:
            self._add_tensors(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def _add(self, writer: gguf.GGUFWriter, key: str, value: object) -> None:
        adders = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        if value is not None:
            adders.get(type(value), writer.add_array)(key, value)

    def _add_tensors(self, writer: gguf.GGUFWriter) -> None:
        random = np.random.default_rng(3)
        writer.add_tensor("norm.weight", random.standard_normal(48).astype(np.float32))
        writer.add_tensor("plain.f16", random.standard_normal((3, 32)).astype(np.float16))
        wide = random.standard_normal((2, 16)).astype(np.float32)
        writer.add_tensor("plain.bf16", gguf.quantize(wide, TYPES.BF16), raw_dtype=TYPES.BF16)
        for kind in BLOCKS:
            writer.add_tensor(f"block.{kind.name}", random_blocks(kind, (16, 256)), raw_dtype=kind)


def oracle(path: Path) -> dict[str, torch.Tensor]:
    """Every tensor by the gguf package."""
    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        shape = tuple(int(dim) for dim in reversed(tensor.shape))
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        found[tensor.name] = torch.from_numpy(values.reshape(shape).copy())
    return found


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path)


@pytest.fixture
def dequantized(tiny: Tiny) -> dict[str, torch.Tensor]:
    """The tensors of a file of `Tiny`."""
    return oracle(tiny.write())


@pytest.fixture(params=["smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct"])
def real(request: pytest.FixtureRequest) -> Path:
    """The folder of a real model; its GGUF lies beside it."""
    root = os.environ.get("TRUECLUSTER_MODELS")
    folder = Path(root or ".") / request.param
    if root is None or not folder.with_name(f"{request.param}.gguf").exists():
        pytest.skip("TRUECLUSTER_MODELS doesn't name a folder with the real models")
    return folder


@pytest.fixture(scope="session")
def small() -> Callable[[Path], Path]:
    """Writes a whole file of a few kB into a folder."""

    def write(folder: Path) -> Path:
        path = folder / "small.gguf"
        writer = gguf.GGUFWriter(path, "qwen2")
        for key, value in {**Tiny(folder).usual(), "general.sizes": [1, 2, 3], "general.flags": [True, False]}.items():
            Tiny(folder)._add(writer, key, value)
        for kind in (TYPES.Q8_0, TYPES.Q4_K, TYPES.IQ1_S):
            writer.add_tensor(f"blk.0.{kind.name}.weight", random_blocks(kind, (2, 256)), raw_dtype=kind)
        writer.add_tensor("output_norm.weight", np.ones(64, dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write
