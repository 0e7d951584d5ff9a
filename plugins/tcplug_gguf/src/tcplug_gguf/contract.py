"""What the contract of checkpoints asks of an author: files of given tensors, written by the gguf package."""

from __future__ import annotations

from pathlib import Path

import gguf
import torch

from truecluster.testing.checkpoint import CheckpointContract, Tensors

TYPES = {
    torch.float32: gguf.GGMLQuantizationType.F32,
    torch.float16: gguf.GGMLQuantizationType.F16,
    torch.bfloat16: gguf.GGMLQuantizationType.BF16,
}


class TestGguf(CheckpointContract):
    offer = "gguf"
    most = 0
    """Tensors of a file; 0 for all."""

    def write(self, folder: Path, tensors: Tensors) -> Path:
        writer = gguf.GGUFWriter(folder / "written.gguf", "qwen2", split_max_tensors=self.most)
        add_tokenizer(writer)
        for name, tensor in tensors.items():
            writer.add_tensor(name, tensor.view(torch.uint8).numpy(), raw_dtype=TYPES[tensor.dtype])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return min(folder.glob("*.gguf"))


class TestPieces(TestGguf):
    """The first piece stands for all."""

    most = 2

    def files(self, path: Path) -> list[Path]:
        return sorted(path.parent.glob("*.gguf"))


def add_tokenizer(writer: gguf.GGUFWriter) -> None:
    """Of three tokens."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(["a", "b", "ab"])
    writer.add_token_types([1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(2)
