"""The suite of checkpoints catches sources that are wrong."""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
from pathlib import Path

import pytest
import torch

from truecluster.api import Checkpoint, CheckpointError, CheckpointSource, Packed, TensorInfo, TokenizerData
from truecluster.testing.checkpoint import CheckpointContract

VALUES = {"a": [[1.0, -2.5, 3.25], [0.5, 0.0, 7.0]], "b": [9.0, -1.0]}


class Toy(Checkpoint):
    """A right one: the length of a JSON header, the header, fp32 numbers."""

    container, model_type = "toy", "toy"

    def __init__(self, path):
        self.path, self.name = path, path.stem
        with path.open("rb") as file:
            self.size = path.stat().st_size
            self.bytes = self._bytes(file) if self.size else b""
        self.header, base = self._header()
        self.metadata, self.generation, self.chat_templates = {"model_type": "toy"}, {}, {}
        self.places = {name: (tuple(shape), base + at) for name, (shape, at) in self.header.items()}
        self.tensors = {
            name: TensorInfo(shape, "fp32", self._nbytes(shape)) for name, (shape, _) in self.places.items()
        }
        self.identity = self._identity()

    def _bytes(self, file):
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def _header(self):
        try:
            (length,) = struct.unpack_from("<Q", self.bytes)
            header = json.loads(self.bytes[8 : 8 + length].decode())
            ends = [8 + length + at + self._nbytes(shape) for shape, at in header.values()]
        except (struct.error, ValueError, OverflowError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self.path}: {error}") from error
        if max(ends) > self.size:
            raise CheckpointError(f"{self.path}: cut short")
        return header, 8 + length

    def _nbytes(self, shape):
        if not all(isinstance(dim, int) and dim > 0 for dim in shape):
            raise ValueError("dimensions")
        return 4 * torch.Size(shape).numel()

    def _identity(self):
        stat = self.path.stat()
        return hashlib.sha256(f"{self.header} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()

    def read(self, name):
        if self.bytes is None or name not in self.places:
            raise CheckpointError(f"{self.path}: closed, or no tensor {name}")
        shape, start = self.places[name]
        data = torch.frombuffer(self.bytes, dtype=torch.uint8, count=self._nbytes(shape), offset=start)
        return Packed("fp32", shape, data)

    def tokenizer(self):
        return TokenizerData(json='{"model": 1}')

    def close(self):
        self.bytes = None


class Copying(Toy):
    """Reads the file into memory."""

    def _bytes(self, file):
        return bytearray(file.read())


class Turned(Toy):
    """Gives matrices as ``[in, out]``."""

    def read(self, name):
        packed = super().read(name)
        return Packed("fp32", packed.shape[::-1], packed.data)


class Trusting(Toy):
    """Fills up with zeros what a file lacks."""

    def _bytes(self, file):
        return bytearray(file.read() + bytes(4096))

    def _header(self):
        self.size += 4096
        return super()._header()


class Careless(Toy):
    """Lets its parser's errors out."""

    def _header(self):
        (length,) = struct.unpack_from("<Q", self.bytes)
        return json.loads(self.bytes[8 : 8 + length].decode()), 8 + length


class Named(Toy):
    """Is known by its name only."""

    def _identity(self):
        return self.name


class Undead(Toy):
    """Reads on after closing."""

    def close(self):
        pass


class _Suite(CheckpointContract):
    made: type[Checkpoint] = Toy

    @pytest.fixture
    def source(self):
        made = self.made

        class Source(CheckpointSource):
            def open(self, reference, options):
                if not Path(reference).exists():
                    raise CheckpointError(f"{reference}: not there")
                return made(Path(reference))

        return Source()

    @pytest.fixture
    def reference(self, tmp_path):
        numbers = {name: torch.tensor(values).flatten().tolist() for name, values in VALUES.items()}
        header = json.dumps({"a": [[2, 3], 0], "b": [[2], 24]}).encode()
        path = tmp_path / "made.toy"
        path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<8f", *numbers["a"], *numbers["b"]))
        return path

    @pytest.fixture
    def expected(self):
        return {name: torch.tensor(values) for name, values in VALUES.items()}


class SuiteOfToy(_Suite):
    pass


class SuiteOfCopying(_Suite):
    made = Copying


class SuiteOfTurned(_Suite):
    made = Turned


class SuiteOfTrusting(_Suite):
    made = Trusting


class SuiteOfCareless(_Suite):
    made = Careless


class SuiteOfNamed(_Suite):
    made = Named


class SuiteOfUndead(_Suite):
    made = Undead


class SuiteWithoutSource(CheckpointContract):
    pass


def test_a_right_source_passes(failures):
    assert failures(SuiteOfToy) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (SuiteOfCopying, "test_tensors_are_mapped_not_copied"),
        (SuiteOfTurned, "test_what_is_read_is_what_was_listed"),
        (SuiteOfTrusting, "test_files_cut_short_are_refused"),
        (SuiteOfCareless, "test_files_cut_short_are_refused"),
        (SuiteOfNamed, "test_the_identity_changes_with_a_byte"),
        (SuiteOfUndead, "test_closing_ends_reading_but_not_what_was_read"),
    ],
)
def test_a_wrong_source_is_caught(failures, suite, caught):
    assert caught in failures(suite)


def test_a_suite_without_its_fixtures_says_what_to_give(failures, capsys):
    assert "test_it_says_what_it_is" in failures(SuiteWithoutSource)
    assert "SuiteWithoutSource must give the fixture 'source'" in capsys.readouterr().out
