"""The contract of checkpoint sources."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch

from truecluster.api import (
    Checkpoint,
    CheckpointError,
    CheckpointSource,
    OpenOptions,
    Packed,
    PluginError,
    TokenizerData,
    WeightFormat,
)

from ._missing import missing

PLAIN = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
CUTS = 40
"""How many places a file is cut at, beside the first and the last bytes."""


class CheckpointContract:
    """Give the fixtures ``source``, ``reference`` and ``expected``, and ``format`` where blocks are read."""

    has_tokenizer = True
    """Whether the checkpoint brings a tokenizer; else asking for it must raise `CheckpointError`."""
    data = "*"
    """Which files of a folder hold tensors, as a pattern; their last byte belongs to one."""

    @pytest.fixture
    def source(self) -> CheckpointSource:
        """The source under test."""
        raise missing(self, "the fixture 'source'", "a CheckpointSource, such as GgufSource()")

    @pytest.fixture
    def reference(self) -> Path:
        """A file or folder of a few kB that ``source`` opens; it is copied, never changed."""
        raise missing(self, "the fixture 'reference'", "the path of a small checkpoint, made by another implementation")

    @pytest.fixture
    def expected(self) -> Mapping[str, torch.Tensor]:
        """Every tensor in fp32 as ``[out, in]``, without the code under test."""
        raise missing(self, "the fixture 'expected'", "tensor name → fp32 tensor, read by another implementation")

    def format(self, id: str) -> WeightFormat:
        """What reads a format id that is none of fp32, fp16 and bf16."""
        raise missing(self, "format(id)", f"the WeightFormat that reads {id!r}")

    @pytest.fixture
    def opened(self, source: CheckpointSource, reference: Path) -> Iterator[Checkpoint]:
        with open_path(source, reference) as checkpoint:
            yield checkpoint

    def files(self, path: Path) -> list[Path]:
        """The files with tensors of a checkpoint at ``path``."""
        return [path] if path.is_file() else sorted(path.glob(self.data))

    def values(self, packed: Packed) -> torch.Tensor:
        """A tensor in fp32."""
        if packed.format in PLAIN:
            return packed.data.clone().view(PLAIN[packed.format]).view(packed.shape).float()
        return self.format(packed.format).unpack(packed)

    def test_it_says_what_it_is(self, opened: Checkpoint, reference: Path) -> None:
        assert opened.container
        assert opened.model_type
        assert opened.identity
        assert opened.name
        assert str(reference.parent) not in opened.name

    def test_metadata_is_plain_data(self, opened: Checkpoint) -> None:
        for facts in (opened.metadata, opened.generation, opened.chat_templates):
            assert json.loads(json.dumps(dict(facts))) == dict(facts)
        assert all(isinstance(text, str) for text in opened.chat_templates.values())

    def test_every_tensor_is_listed_with_its_shape(
        self, opened: Checkpoint, expected: Mapping[str, torch.Tensor]
    ) -> None:
        assert {name: info.shape for name, info in opened.tensors.items()} == {
            name: tuple(tensor.shape) for name, tensor in expected.items()
        }

    def test_every_tensor_has_the_expected_values(
        self, opened: Checkpoint, expected: Mapping[str, torch.Tensor]
    ) -> None:
        for name, tensor in expected.items():
            torch.testing.assert_close(self.values(opened.read(name)), tensor, rtol=1e-6, atol=0)

    def test_what_is_read_is_what_was_listed(self, opened: Checkpoint) -> None:
        for name, info in opened.tensors.items():
            packed = opened.read(name)
            assert (packed.format, packed.shape) == (info.format, info.shape)
            assert packed.data.dtype == torch.uint8
            assert tuple(packed.data.shape) == (info.nbytes,)

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the mappings of a process")
    def test_tensors_are_mapped_not_copied(self, opened: Checkpoint, reference: Path) -> None:
        for name in opened.tensors:
            address = opened.read(name).data.data_ptr()
            assert any(_is_mapped(file, address) for file in self.files(reference)), name

    def test_an_unknown_tensor_is_named(self, opened: Checkpoint) -> None:
        with pytest.raises(CheckpointError, match="no-such-tensor"):
            opened.read("no-such-tensor")

    def test_the_tokenizer_is_a_json_text_or_a_folder(self, opened: Checkpoint) -> None:
        if not self.has_tokenizer:
            with pytest.raises(CheckpointError):
                opened.tokenizer()
            return
        found = opened.tokenizer()
        assert isinstance(found, TokenizerData)
        assert json.loads(found.json) if found.json is not None else Path(found.folder or "").is_dir()

    def test_closing_ends_reading_but_not_what_was_read(
        self, source: CheckpointSource, reference: Path, expected: Mapping[str, torch.Tensor]
    ) -> None:
        checkpoint = open_path(source, reference)
        name, tensor = next(iter(expected.items()))
        packed = checkpoint.read(name)
        checkpoint.close()
        checkpoint.close()
        torch.testing.assert_close(self.values(packed), tensor, rtol=1e-6, atol=0)
        with pytest.raises(CheckpointError):
            checkpoint.read(name)

    def test_the_identity_stays_while_nothing_changes(self, source: CheckpointSource, reference: Path) -> None:
        assert _identity(source, reference) == _identity(source, reference)

    def test_the_identity_changes_with_a_byte(self, source: CheckpointSource, reference: Path, tmp_path: Path) -> None:
        copied = copy(reference, tmp_path)
        before = _identity(source, copied)
        for file in self.files(copied):
            with file.open("r+b") as opened:
                opened.seek(-1, os.SEEK_END)
                last = opened.read(1)[0]
                opened.seek(-1, os.SEEK_END)
                opened.write(bytes([last ^ 1]))
            after = _identity(source, copied)
            assert after != before
            before = after

    def test_what_is_not_there_is_refused(self, source: CheckpointSource, tmp_path: Path, reference: Path) -> None:
        with pytest.raises(CheckpointError):
            source.open(str(tmp_path / f"absent{reference.suffix}"), OpenOptions())

    def test_files_cut_short_are_refused(self, source: CheckpointSource, reference: Path, tmp_path: Path) -> None:
        """At any length, by `CheckpointError` and nothing else."""
        for index, file in enumerate(self.files(reference)):
            for length in _lengths(file.stat().st_size):
                copied = copy(reference, tmp_path)
                os.truncate(self.files(copied)[index], length)
                with pytest.raises(CheckpointError):
                    _read_all(source, copied)

    def test_damaged_headers_raise_nothing_else(
        self, source: CheckpointSource, reference: Path, tmp_path: Path
    ) -> None:
        """Any byte may be wrong; what is read then is either an error or bytes of the file."""
        for index, file in enumerate(self.files(reference)):
            original = file.read_bytes()
            for place in _places(len(original)):
                copied = copy(reference, tmp_path)
                changed = original[:place] + bytes([original[place] ^ 0xFF]) + original[place + 1 :]
                self.files(copied)[index].write_bytes(changed)
                try:
                    _read_all(source, copied)
                except (CheckpointError, PluginError):
                    continue


def open_path(source: CheckpointSource, path: Path) -> Checkpoint:
    """Open a path that ``source`` itself opens."""
    opened = source.open(str(path), OpenOptions())
    assert isinstance(opened, Checkpoint), f"{path} led to {opened!r} instead of a checkpoint"
    return opened


def copy(reference: Path, folder: Path) -> Path:
    """A fresh copy of a checkpoint, under its own name."""
    target = folder / "copy" / reference.name
    shutil.rmtree(target.parent, ignore_errors=True)
    target.parent.mkdir()
    return Path(shutil.copy2(reference, target) if reference.is_file() else shutil.copytree(reference, target))


def _identity(source: CheckpointSource, path: Path) -> str:
    with open_path(source, path) as checkpoint:
        return checkpoint.identity


def _read_all(source: CheckpointSource, path: Path) -> None:
    with open_path(source, path) as checkpoint:
        for name, info in checkpoint.tensors.items():
            data = checkpoint.read(name).data
            assert data.numel() == info.nbytes
            data.sum()


def _lengths(size: int) -> list[int]:
    """Nothing, the first bytes, places all over the file, all but the last byte."""
    return sorted({*range(min(16, size)), *range(0, size, max(1, size // CUTS)), size - 1})


def _places(size: int) -> list[int]:
    return sorted({*range(min(64, size)), *range(0, size, max(1, size // (2 * CUTS)))})


def _is_mapped(file: Path, address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(file.resolve())):
            start, _, stop = line.split()[0].partition("-")
            if int(start, 16) <= address < int(stop, 16):
                return True
    return False
