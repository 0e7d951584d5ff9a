"""Models in several files, split by the gguf package."""

from __future__ import annotations

import struct
from pathlib import Path

import attrs
import gguf
import numpy as np
import pytest
import torch
from tcplug_gguf.checkpoint import GgufSource

from truecluster.api import Checkpoint, CheckpointError, OpenOptions

NAME = "Some-Model-Q8_0"


def opened(path: Path) -> Checkpoint:
    return GgufSource().open(str(path), OpenOptions())


@attrs.frozen
class Split:
    """The pieces, and every tensor in fp32."""

    paths: list[Path]
    tensors: dict[str, torch.Tensor]


@pytest.fixture
def split(tiny, tmp_path: Path) -> Split:
    """Five tensors, two a piece."""
    folder = tmp_path / "pieces"
    folder.mkdir()
    writer = gguf.GGUFWriter(folder / f"{NAME}.gguf", "qwen2", split_max_tensors=2)
    for key, value in tiny.usual().items():
        tiny._add(writer, key, value)
    random, tensors = np.random.default_rng(2), {}
    for i in range(5):
        values = random.standard_normal((16, 64)).astype(np.float32)
        packed = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(f"blk.{i}.x.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        tensors[f"blk.{i}.x.weight"] = torch.from_numpy(gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    paths = sorted(folder.glob("*.gguf"))
    assert [path.name for path in paths] == [f"{NAME}-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    return Split(paths, tensors)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_piece_opens_all(split: Split, which: int) -> None:
    with opened(split.paths[which]) as checkpoint:
        assert (checkpoint.name, checkpoint.model_type) == (NAME, "qwen2")
        assert set(checkpoint.tensors) == set(split.tensors)
        assert checkpoint.metadata["qwen2.block_count"] == 2
        assert checkpoint.tokenizer().eos == "<|im_end|>"
        assert checkpoint.chat_templates["default"] == "{{ messages }}"


def test_missing_pieces_are_named(split: Split) -> None:
    split.paths[0].unlink()
    split.paths[2].unlink()
    with pytest.raises(CheckpointError, match="2 of the model's 3 pieces are missing") as caught:
        opened(split.paths[1])
    assert f"{NAME}-00001-of-00003.gguf, {NAME}-00003-of-00003.gguf; fetch them too" in str(caught.value)


def test_a_piece_under_another_name_is_refused(split: Split) -> None:
    renamed = split.paths[0].rename(split.paths[0].with_name("model.gguf"))
    with pytest.raises(CheckpointError, match=r"one of 3 pieces .* named NAME-00001-of-00003\.gguf"):
        opened(renamed)


def test_a_piece_in_the_place_of_another_is_refused(split: Split) -> None:
    split.paths[1].write_bytes(split.paths[2].read_bytes())
    with pytest.raises(CheckpointError, match=r"00002-of-00003\.gguf: .*split\.no or split\.count contradicts"):
        opened(split.paths[0])


def changed(path: Path, key: str, value: int) -> None:
    """Write another number, of two bytes for split.no and split.count, else of four."""
    raw, name = bytearray(path.read_bytes()), key.encode()
    place = raw.index(name) + len(name) + 4
    code = "<H" if key in ("split.no", "split.count") else "<i"
    struct.pack_into(code, raw, place, value)
    path.write_bytes(raw)


def test_a_count_that_pieces_do_not_share_is_refused(split: Split) -> None:
    changed(split.paths[2], "split.count", 2)
    with pytest.raises(CheckpointError, match=r"00003-of-00003\.gguf: .*contradict"):
        opened(split.paths[0])


def test_fewer_tensors_than_promised_are_refused(split: Split) -> None:
    changed(split.paths[0], "split.tensors.count", 6)
    with pytest.raises(CheckpointError, match="5 tensors together, but should have 6"):
        opened(split.paths[0])


def test_a_tensor_in_two_pieces_is_refused(split: Split) -> None:
    raw = split.paths[1].read_bytes()
    split.paths[1].write_bytes(raw.replace(b"blk.2.x", b"blk.0.x"))
    with pytest.raises(CheckpointError, match=r"two of the model's pieces have the tensor 'blk\.0\.x\.weight'"):
        opened(split.paths[0])


def test_a_damaged_piece_is_named(split: Split) -> None:
    split.paths[2].write_bytes(split.paths[2].read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"00003-of-00003\.gguf.*cut short"):
        opened(split.paths[0])


def test_the_identity_changes_with_any_piece(split: Split) -> None:
    before = opened(split.paths[0]).identity
    raw = bytearray(split.paths[2].read_bytes())
    raw[-1] ^= 1
    split.paths[2].write_bytes(raw)
    assert opened(split.paths[0]).identity != before
