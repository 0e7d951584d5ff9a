"""The suite of checkpoints catches sources that are wrong, each by one method."""

from __future__ import annotations

import hashlib
import itertools
import json
import mmap
import os
import struct
import textwrap
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from doubles import Double

from truecluster.api import (
    Checkpoint,
    CheckpointError,
    CheckpointSource,
    CheckpointSpec,
    OpenOptions,
    Packed,
    TensorInfo,
    TokenizerData,
)
from truecluster.testing._contract import Installed
from truecluster.testing._identity import identity_elsewhere
from truecluster.testing.checkpoint import FORMATS, CheckpointContract
from truecluster.testing.rules import Broken

SIZES = {"fp32": 4, "fp16": 2, "bf16": 2}
SEEDS = [0]
"""What texts hash by, in this process and in those within it that stand for others."""
WRONG = (ValueError, KeyError, TypeError, AttributeError, struct.error, OverflowError)


class Toy(Checkpoint):
    """A right one: a folder with one file, the length of a JSON header, the header, tensors."""

    container, model_type = "toy", "toy"

    def __init__(self, folder):
        self.folder, self.name = folder, folder.name
        self.path = self.checked(folder / "weights.toy")
        self.bytes = self.mapped()
        self.metadata, self.generation, self.chat_templates = {"model_type": "toy"}, {}, {}
        self.entries = self.parsed()
        self.tensors = self.listed()
        self.identity = self.identified()

    def checked(self, path):
        if not path.is_file():
            raise CheckpointError(f"{path}: there is no such file")
        if path.is_symlink():
            raise CheckpointError(f"{path}: a link")
        return path

    def mapped(self):
        with self.path.open("rb") as file:
            try:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            except ValueError as error:
                raise CheckpointError(f"{self.path}: {error}") from error

    def parsed(self):
        """Name → shape, format, place."""
        try:
            return self.entries_of(*self.header())
        except WRONG as error:
            raise CheckpointError(f"{self.path}: {error}") from error

    def header(self):
        (length,) = struct.unpack_from("<Q", self.bytes)
        return json.loads(self.bytes[8 : 8 + length].decode()), 8 + length

    def entries_of(self, header, base):
        entries = {name: (tuple(e["shape"]), e["format"], base + int(e["at"])) for name, e in header.items()}
        self.check_bounds(base, [(place, self.end(shape, format, place)) for shape, format, place in entries.values()])
        return entries

    def check_bounds(self, base, bounds):
        if min(start for start, _ in bounds) < base or max(stop for _, stop in bounds) > len(self.bytes):
            raise ValueError("a tensor outside the file")

    def end(self, shape, format, place):
        if not all(isinstance(dim, int) and dim > 0 for dim in shape):
            raise ValueError("dimensions")
        return place + SIZES[format] * torch.Size(shape).numel()

    def listed(self):
        return {
            name: TensorInfo(shape, format, self.end(shape, format, 0))
            for name, (shape, format, _) in self.entries.items()
        }

    def identified(self):
        stat = self.path.stat()
        return hashlib.sha256(f"{self.entries} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()

    def read(self, name):
        self.refuse_closed()
        if name not in self.entries:
            raise CheckpointError(f"{self.path}: there is no tensor {name!r}")
        shape, format, place = self.entries[name]
        return Packed(format, shape, self.view(place, self.tensors[name].nbytes))

    def view(self, place, nbytes):
        return torch.frombuffer(self.bytes, dtype=torch.uint8, count=nbytes, offset=place)

    def refuse_closed(self):
        if self.bytes is None:
            raise CheckpointError(f"{self.path}: closed")

    def tokenizer(self):
        return TokenizerData(json='{"model": 1}')

    def close(self):
        self.bytes = None


class Sited(Toy):
    """Is called by its whole path."""

    def __init__(self, folder):
        super().__init__(folder)
        self.name = str(folder)


class Pointing(Toy):
    """Has an object of Python in its metadata."""

    def __init__(self, folder):
        super().__init__(folder)
        self.metadata = {"folder": Path("a")}


class Plain(Toy):
    """Lists only names that are ASCII."""

    def listed(self):
        return {name: info for name, info in super().listed().items() if name.isascii()}

    def read(self, name):
        self.tensors = super().listed()
        return super().read(name)


class Shifted(Toy):
    """Reads a tensor of bf16 two bytes early where another one lies before it."""

    def entries_of(self, header, base):
        entries = super().entries_of(header, base)
        late = {name: e for name, e in entries.items() if e[1] == "bf16" and e[2] > base}
        return entries | {name: (shape, format, place - 2) for name, (shape, format, place) in late.items()}


class Turned(Toy):
    """Gives matrices as ``[in, out]``."""

    def read(self, name):
        packed = super().read(name)
        return Packed(packed.format, packed.shape[::-1], packed.data)


class Copying(Toy):
    """Reads tensors into memory."""

    def view(self, place, nbytes):
        return super().view(place, nbytes).clone()


class Nameless(Toy):
    """Doesn't say which tensor isn't there."""

    def read(self, name):
        if self.bytes is not None and name not in self.entries:
            raise CheckpointError("no such tensor")
        return super().read(name)


class Wordless(Toy):
    """Gives the path of its tokenizer as the text."""

    def tokenizer(self):
        return TokenizerData(json="tokenizer.json")


class Undead(Toy):
    """Reads on after closing."""

    def close(self):
        pass


class Burying(Toy):
    """Clears what it mapped."""

    def close(self):
        if self.bytes is not None:
            self.bytes[:] = bytes(len(self.bytes))
        super().close()


class Leaking(Toy):
    """Leaves its file open, until another one is opened: some hundred would be left of a suite."""

    left: ClassVar[list[int]] = []

    def mapped(self):
        while self.left:
            os.close(self.left.pop())
        self.left.append(os.open(self.path, os.O_RDONLY))
        return super().mapped()


class Restless(Toy):
    """Counts how often it was opened."""

    times = itertools.count()

    def identified(self):
        return f"{super().identified()}.{next(self.times)}"


class Hashing(Toy):
    """Hashes as Python does, which is another number in every process."""

    def identified(self):
        return str(hash((super().identified(), SEEDS[-1])))


class Named(Toy):
    """Is known by its name and its size."""

    def identified(self):
        return f"{self.name} {len(self.bytes)}"


class Absent(Toy):
    """Lets the system's error out where there is no folder."""

    def checked(self, path):
        path.parent.stat()
        return super().checked(path)


class Trusting(Toy):
    """Fills up with zeros what a file lacks at its end."""

    def check_bounds(self, base, bounds):
        pass

    def view(self, place, nbytes):
        if 0 <= place <= len(self.bytes) < place + nbytes:
            return torch.zeros(nbytes, dtype=torch.uint8)
        if not 0 <= place <= len(self.bytes):
            raise CheckpointError("a tensor outside the file")
        return super().view(place, nbytes)


class Reaching(Toy):
    """Checks that the last tensor ends in the file, and no other."""

    def check_bounds(self, base, bounds):
        super().check_bounds(base, bounds[-1:])


class Greedy(Toy):
    """Makes room for a header of whatever length is said."""

    def header(self):
        (length,) = struct.unpack_from("<Q", self.bytes)
        if length < 1 << 28:
            bytearray(length)
        return super().header()


class Following(Toy):
    """Follows links."""

    def checked(self, path):
        return super().checked(path.resolve())


class Waiting(Toy):
    """Opens what isn't a folder."""

    def checked(self, path):
        if path.is_fifo():
            path.open("rb").close()
        return super().checked(path)


class _Suite(CheckpointContract):
    made: type[Checkpoint] = Toy
    cuts = 16
    markers = ("weights.toy",)

    @pytest.fixture
    def installed(self):
        made = self.made

        class Source(CheckpointSource):
            def open(self, reference, options):
                return made(Path(reference))

        spec = CheckpointSpec(name="made", target=f"{__name__}:Toy", forms=("FOLDER",), markers=self.markers)
        return Installed(spec, Source)

    def elsewhere(self, installed, path):
        SEEDS.append(1)
        with installed.target().open(str(path), OpenOptions()) as checkpoint:
            SEEDS.pop()
            return checkpoint.identity

    def write(self, folder, tensors):
        header, data = {}, b""
        for name, tensor in tensors.items():
            header[name] = {"at": f"{len(data):04}", "shape": list(tensor.shape), "format": FORMATS[tensor.dtype]}
            data += bytes(tensor.reshape(-1).view(torch.uint8).tolist())
        text, place = json.dumps(header).encode(), folder / "made"
        place.mkdir()
        (place / "weights.toy").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return place


class SuiteWithoutWrite(CheckpointContract):
    made, markers = Toy, ("weights.toy",)
    installed = _Suite.installed


class SuiteOfMisspelt(_Suite):
    """Knows its folders by a file that they don't have."""

    markers = ("wieghts.toy",)


class SuiteOfClaiming(_Suite):
    """Knows its folders by a file that those of others have."""

    markers = ("config.json",)

    def write(self, folder, tensors):
        place = super().write(folder, tensors)
        (place / "config.json").write_text("{}")
        return place


def suite(checkpoint, **given):
    made = type(f"SuiteOf{checkpoint.__name__}", (_Suite,), {"made": checkpoint, **given, "__module__": __name__})
    globals()[made.__name__] = made
    return made


SUITE = CheckpointContract
RIGHT = [suite(Toy)]
DOUBLES = {
    "test_its_forms_choose_it": Double(
        SuiteOfMisspelt, "'made' is chosen\ncame: CheckpointError.*folder has none of .*\nreference: made"
    ),
    "test_it_says_what_it_is": Double(suite(Sited), "a name without its folder\ncame: /"),
    "test_metadata_is_plain_data": Double(suite(Pointing), "metadata that JSON can hold\ncame: TypeError"),
    "test_every_tensor_is_listed": Double(suite(Plain), r"came: \{\}\nwritten: \{'é'"),
    "test_every_tensor_has_its_bytes": Double(suite(Shifted), r"bytes \[.*\n.*\n.*\nwritten: .*bfloat16"),
    "test_what_is_read_is_what_was_listed": Double(suite(Turned), r"\(\(4, 16\), .*\ncame: \(\(16, 4\),"),
    "test_tensors_are_mapped_not_copied": Double(suite(Copying), "came: memory of the process\ntensor: float32"),
    "test_an_unknown_tensor_is_named": Double(suite(Nameless), "matches 'no-such-tensor'\ncame: .*no such tensor"),
    "test_the_tokenizer_is_a_json_text_or_a_folder": Double(suite(Wordless), "text of a JSON file\n(.*\n)*json: token"),
    "test_closing_ends_reading": Double(suite(Undead), "CheckpointError\ncame: nothing was raised\ntensor: float32"),
    "test_what_was_read_outlives_closing": Double(suite(Burying), r"the bytes \{.*\ncame: \{'float32': \[0, 0, 0"),
    "test_no_file_stays_open": Double(suite(Leaking), r"no file held\ncame: \[.*weights.toy"),
    "test_the_identity_stays_while_nothing_changes": Double(suite(Restless), r"expected: .*\.\d+\ncame: .*\.\d+"),
    "test_the_identity_changes_with_a_byte": Double(suite(Named), "another identity .*\n.*\nfile: weights.toy"),
    "test_what_is_not_there_is_refused": Double(suite(Absent), "CheckpointError .*\ncame: FileNotFoundError"),
    "test_a_file_cut_short_is_refused": Double(suite(Trusting), r"nothing was raised\nfile: .*\nbytes: \d+ of \d+"),
    "test_a_damaged_byte_raises_nothing_else": Double(
        suite(Reaching), "came: ValueError.*offset.*\nfile: .*\nbyte: .* →"
    ),
    "test_a_huge_number_takes_no_memory": Double(suite(Greedy), r"came: 2684\d+\nfile: .*\nbyte: 0"),
    "test_a_link_out_of_the_folder_is_refused": Double(suite(Following), "nothing was raised\nfile: weights.toy →"),
    "test_what_is_no_file_is_refused": Double(suite(Waiting, patience=1.0), "still waiting after 1.0 s\nkind: pipe"),
}


def test_a_suite_without_write_says_what_to_give(verdict):
    caught = verdict(SuiteWithoutWrite, "test_it_says_what_it_is")
    assert "SuiteWithoutWrite must give write(folder, tensors)" in caught["test_it_says_what_it_is"]


def test_a_form_that_another_source_has_is_caught(verdict):
    caught = verdict(SuiteOfClaiming, "test_its_forms_choose_it")
    assert "is claimed by 'hf' of tcplug-hf" in caught["test_its_forms_choose_it"]


def test_an_identity_of_this_process_alone_is_caught(verdict):
    caught = verdict(suite(Hashing))
    assert list(caught) == ["test_the_identity_stays_while_nothing_changes"]
    assert "came: in another process " in caught["test_the_identity_stays_while_nothing_changes"]


def test_the_identity_is_asked_for_in_another_process(tmp_path, monkeypatch):
    source = """
        from truecluster.api import Checkpoint, CheckpointSource

        class Hashed(Checkpoint):
            container = model_type = name = ""
            metadata = generation = chat_templates = tensors = {}
            read = tokenizer = close = lambda *ignored: None

            def __init__(self, path):
                self.identity = str(hash(path))

        class Source(CheckpointSource):
            def open(self, reference, options):
                print("opening")
                return Hashed(reference)
    """
    (tmp_path / "hashing.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    found = {identity_elsewhere("hashing:Source", tmp_path), str(hash(str(tmp_path)))}
    assert len(found) == 2
    with pytest.raises(Broken, match="No module named 'hashed'"):
        identity_elsewhere("hashed:Source", tmp_path)
