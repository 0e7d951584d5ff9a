"""The contract of checkpoint sources that open files; of those that only locate, see `locator`."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truecluster._registry import Offer
from truecluster._registry.references import choose
from truecluster.api import (
    Checkpoint,
    CheckpointError,
    CheckpointSource,
    OpenOptions,
    PluginError,
    TensorInfo,
    TokenizerData,
    TrueClusterError,
)

from ._contract import Contract, Installed, registry
from ._damage import changed_bytes, held, huge_numbers, is_mapped, outcome, places, replace
from ._identity import identity_elsewhere
from ._missing import missing
from .rules import Broken, ranging, refusal, require

Tensors = Mapping[str, torch.Tensor]
FORMATS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
MOST = 64 << 20
"""Bytes that opening a file of some kB may take."""
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what a process has open and mapped")
names = st.text("aZ0._é漢", min_size=1, max_size=8)
kinds = st.tuples(st.lists(st.integers(1, 9), min_size=1, max_size=2).map(tuple), st.sampled_from([*FORMATS]))
described = st.dictionaries(names, kinds, min_size=1, max_size=4)
"""Tensor name → shape and dtype."""


class CheckpointContract(Contract):
    """Name ``offer``, and give `write`."""

    KIND = "checkpoint"
    has_tokenizer: ClassVar[bool] = True
    """Whether `write` gives the checkpoint a tokenizer; else asking for it must raise `CheckpointError`."""
    data: ClassVar[str] = "*"
    """Which files of a folder hold tensors, as a pattern."""
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (*FORMATS,)
    """Those that `write` can write."""
    cuts: ClassVar[int] = 40
    """Places all over the files where one is cut short or damaged, beside twice as many at their beginnings."""
    patience: ClassVar[float] = 10.0
    """Seconds after which `open` counts as waiting for ever."""

    def write(self, folder: Path, tensors: Tensors) -> Path:
        """Write a checkpoint of exactly these tensors, each in its own dtype, into an empty folder.

        Without the code under test. Return what the source opens: a file or a folder in ``folder``.
        """
        raise missing(self, "write(folder, tensors)", "the path of a checkpoint with just these tensors, written there")

    @pytest.fixture
    def source(self, installed: Installed) -> CheckpointSource:
        """The source under test."""
        made: CheckpointSource = installed.target()
        return made

    @pytest.fixture
    def reference(self, tmp_path: Path) -> Path:
        """A checkpoint of a few tensors, of each dtype; of whole 64 bytes, so that no padding follows the last one."""
        folder = tmp_path / "written"
        folder.mkdir()
        shapes = {f"{dtype}".rpartition(".")[2]: ((4, 16), dtype) for dtype in self.dtypes}
        return self.write(folder, drawn({**shapes, "vector": ((32,), self.dtypes[0])}))

    @pytest.fixture
    def opened(self, source: CheckpointSource, reference: Path) -> Iterator[Checkpoint]:
        """It, opened."""
        with open_path(source, reference) as checkpoint:
            yield checkpoint

    def files(self, path: Path) -> list[Path]:
        """The files with tensors of a checkpoint."""
        return [path] if path.is_file() else sorted(path.glob(self.data))

    def each(self, path: Path) -> Iterator[tuple[Path, bytes, int]]:
        """Every file with tensors, its content, and how many places of it are tried; it is put back afterwards."""
        files = self.files(path)
        for file in files:
            content = file.read_bytes()
            yield file, content, max(1, self.cuts // len(files))
            replace(file, content)

    @contextmanager
    def written(self, shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]]) -> Iterator[tuple[Path, Tensors]]:
        """A checkpoint of random tensors, and these; dtypes that can't be written are replaced by one that can."""
        known = {name: (shape, t if t in self.dtypes else self.dtypes[0]) for name, (shape, t) in shapes.items()}
        with tempfile.TemporaryDirectory() as folder:
            tensors = drawn(known)
            yield self.write(Path(folder), tensors), tensors

    def elsewhere(self, installed: Installed, path: Path) -> str:
        """The identity of what lies there, in another process."""
        return identity_elsewhere(installed.spec.target, path)

    def test_its_forms_choose_it(self, installed: Installed, reference: Path) -> None:
        """Of all sources that are installed, the one whose form fits what was written is this one, and no other."""
        if not any(form == "FOLDER" or form.startswith("*") for form in installed.spec.forms):
            pytest.skip("none of its forms is that of a path")
        others = [each for each in registry().offers("checkpoint") if each.spec.name != installed.spec.name]
        under_test = Offer(installed.spec, "the package under test", "", "")
        inputs = {"reference": reference.name, "forms": installed.spec.forms, "markers": installed.spec.markers}
        expected = f"that {installed.spec.name!r} is chosen"
        try:
            chosen = choose([*others, under_test], str(reference))
        except TrueClusterError as refused:
            raise Broken(expected, refused, inputs) from refused
        require(chosen is under_test, expected, chosen, **inputs)

    def test_it_says_what_it_is(self, opened: Checkpoint, reference: Path) -> None:
        """Container, model type, name and identity are texts that aren't empty; the name is never a path."""
        facts = {word: getattr(opened, word) for word in ("container", "model_type", "name", "identity")}
        require(all(isinstance(fact, str) and fact for fact in facts.values()), "four texts", facts)
        require(str(reference.parent) not in opened.name, "a name without its folder", opened.name)

    def test_metadata_is_plain_data(self, opened: Checkpoint) -> None:
        """Metadata, generation and chat templates are what JSON can hold, and come back from it equal."""
        for word in ("metadata", "generation", "chat_templates"):
            facts = dict(getattr(opened, word))
            try:
                back = json.loads(json.dumps(facts))
            except (TypeError, ValueError) as error:
                raise Broken(f"{word} that JSON can hold", error, {word: facts}) from error
            require(back == facts, f"{word} equal after JSON", back, **{word: facts})

    @ranging
    @given(shapes=described)
    def test_every_tensor_is_listed(
        self, source: CheckpointSource, shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]]
    ) -> None:
        """``tensors`` has each tensor under its own name, with shape ``[out, in]``, format and number of bytes."""
        with self.written(shapes) as (path, tensors), open_path(source, path) as checkpoint:
            wanted = {name: TensorInfo(tuple(t.shape), FORMATS[t.dtype], t.nbytes) for name, t in tensors.items()}
            require(dict(checkpoint.tensors) == wanted, str(wanted), dict(checkpoint.tensors), written=shapes)

    @ranging
    @given(shapes=described)
    def test_every_tensor_has_its_bytes(
        self, source: CheckpointSource, shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]]
    ) -> None:
        """`read` gives each tensor's elements to the bit, little-endian, row after row."""
        with self.written(shapes) as (path, tensors), open_path(source, path) as checkpoint:
            for name, tensor in tensors.items():
                wanted = tensor.reshape(-1).view(torch.uint8).tolist()
                found = checkpoint.read(name).data.tolist()
                require(found == wanted, f"bytes {wanted}", f"bytes {found}", tensor=name, written=shapes)

    def test_what_is_read_is_what_was_listed(self, opened: Checkpoint) -> None:
        """`read` gives the format and the shape that ``tensors`` tells, and as many bytes, as flat uint8."""
        for name, info in opened.tensors.items():
            packed = opened.read(name)
            found = (packed.shape, packed.format, tuple(packed.data.shape), packed.data.dtype)
            wanted = (info.shape, info.format, (info.nbytes,), torch.uint8)
            require(found == wanted, str(wanted), found, tensor=name)

    @only_linux
    def test_tensors_are_mapped_not_copied(self, opened: Checkpoint, reference: Path) -> None:
        """What is read lies in a mapping of the file, so that a model may be larger than memory."""
        for name in opened.tensors:
            address = opened.read(name).data.data_ptr()
            mapped = any(is_mapped(file, address) for file in self.files(reference))
            require(mapped, "an address in a mapping of the file", "memory of the process", tensor=name)

    def test_an_unknown_tensor_is_named(self, opened: Checkpoint) -> None:
        """`read` raises `CheckpointError` that names a tensor that isn't there."""
        with refusal(CheckpointError, "no-such-tensor"):
            opened.read("no-such-tensor")

    def test_the_tokenizer_is_a_json_text_or_a_folder(self, opened: Checkpoint) -> None:
        """`tokenizer` gives a tokenizer.json's text or an existing folder; without any it raises `CheckpointError`."""
        if not self.has_tokenizer:
            with refusal(CheckpointError):
                opened.tokenizer()
            return
        found = opened.tokenizer()
        require(isinstance(found, TokenizerData), "TokenizerData", found)
        if found.json is None:
            require(Path(found.folder or "-").is_dir(), "a folder that exists", found.folder)
            return
        try:
            json.loads(found.json)
        except ValueError as error:
            raise Broken("the text of a JSON file", error, {"json": found.json}) from error

    def test_closing_ends_reading(self, opened: Checkpoint) -> None:
        """After `close`, which may be called again, `read` raises `CheckpointError`."""
        name = next(iter(opened.tensors))
        opened.close()
        opened.close()
        with refusal(CheckpointError, "", tensor=name):
            opened.read(name)

    def test_what_was_read_outlives_closing(self, opened: Checkpoint) -> None:
        """A tensor that was read keeps its bytes after `close`."""
        read = {name: opened.read(name).data for name in opened.tensors}
        before = {name: data.tolist() for name, data in read.items()}
        opened.close()
        after = {name: data.tolist() for name, data in read.items()}
        require(after == before, f"the bytes {before}", after)

    @only_linux
    @pytest.mark.parametrize("damaged", [False, True])
    def test_no_file_stays_open(self, source: CheckpointSource, reference: Path, tmp_path: Path, damaged: bool) -> None:
        """Nothing is open or mapped once a checkpoint is closed and nothing of it held, or once it was refused."""
        if damaged:
            file = self.files(reference)[-1]
            os.truncate(file, file.stat().st_size // 2)
        with suppress(CheckpointError):
            read_all(source, reference)
        gc.collect()
        require(not held(tmp_path), "no file held", held(tmp_path), damaged=damaged)

    def test_the_identity_stays_while_nothing_changes(
        self, installed: Installed, source: CheckpointSource, reference: Path
    ) -> None:
        """The same bytes at the same path have the same identity each time they are opened, in any process."""
        first, second = identity(source, reference), identity(source, reference)
        require(first == second, first, second)
        elsewhere = self.elsewhere(installed, reference)
        require(first == elsewhere, first, f"in another process {elsewhere}")

    def test_the_identity_changes_with_a_byte(self, source: CheckpointSource, reference: Path) -> None:
        """Where a file is written again a second later, one byte of a tensor changed, the identity is another."""
        for file in self.files(reference):
            before, written = identity(source, reference), file.stat().st_mtime_ns
            content = file.read_bytes()
            replace(file, content[:-1] + bytes([content[-1] ^ 1]))
            os.utime(file, ns=(written + 10**9, written + 10**9))
            require(
                identity(source, reference) != before, f"another identity than {before}", "the same", file=file.name
            )

    def test_what_is_not_there_is_refused(self, source: CheckpointSource, reference: Path) -> None:
        """`open` raises `CheckpointError` that names a path where nothing is."""
        absent = reference.with_name(f"absent{reference.suffix}")
        with refusal(CheckpointError, "absent", path=absent.name):
            source.open(str(absent), OpenOptions())

    def test_a_file_cut_short_is_refused(self, source: CheckpointSource, reference: Path) -> None:
        """At whatever length a file ends too early, opening or reading raises `CheckpointError`."""
        for file, content, cuts in self.each(reference):
            for length in places(len(content), cuts):
                replace(file, content[:length])
                with refusal(CheckpointError, "", file=file.name, bytes=f"{length} of {len(content)}"):
                    read_all(source, reference)

    def test_a_damaged_byte_raises_nothing_else(self, source: CheckpointSource, reference: Path) -> None:
        """Any byte may be wrong: names, dtypes, shapes, places. `CheckpointError`, or what is read lies in the file."""
        for file, content, cuts in self.each(reference):
            for place, changed in changed_bytes(content, cuts):
                replace(file, changed)
                try:
                    read_all(source, reference)
                except (CheckpointError, PluginError):
                    continue
                except Exception as error:
                    inputs = {"file": file.name, "byte": f"{place}: {content[place]:#04x} → {changed[place]:#04x}"}
                    raise Broken("CheckpointError, or tensors of the file", error, dict(inputs)) from error

    def test_a_huge_number_takes_no_memory(self, source: CheckpointSource, reference: Path) -> None:
        """A length or count is checked against the file before anything is allocated for it."""
        tracemalloc.start()
        try:
            for file, content, cuts in self.each(reference):
                for place, number, changed in huge_numbers(content, cuts // 2):
                    replace(file, changed)
                    tracemalloc.reset_peak()
                    with suppress(CheckpointError, PluginError):
                        read_all(source, reference)
                    peak, inputs = tracemalloc.get_traced_memory()[1], {"file": file.name, "byte": place}
                    require(peak < MOST, f"less than {MOST} bytes at once", f"{peak}", **inputs, number=number)
        finally:
            tracemalloc.stop()

    def test_a_link_out_of_the_folder_is_refused(
        self, installed: Installed, source: CheckpointSource, reference: Path, tmp_path: Path
    ) -> None:
        """In a model's folder, a file that is a link to another place raises `CheckpointError`."""
        if "FOLDER" not in installed.spec.forms or sys.platform == "win32":
            pytest.skip("it opens no folders, or links take rights")
        file = self.files(reference)[-1]
        outside = file.rename(tmp_path / "outside")
        file.symlink_to(outside)
        with refusal(CheckpointError, "", file=f"{file.name} → ../outside"):
            read_all(source, reference)

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
    @pytest.mark.parametrize("kind", ["folder", "pipe"])
    def test_what_is_no_file_is_refused(self, source: CheckpointSource, reference: Path, kind: str) -> None:
        """A folder or a named pipe in a file's place raises `CheckpointError`; nothing waits for its writer."""
        file = self.files(reference)[-1]
        file.unlink()
        file.mkdir() if kind == "folder" else os.mkfifo(file)
        found = outcome(lambda: read_all(source, reference), file, self.patience)
        came = f"still waiting after {self.patience} s" if found is None else found
        require(isinstance(found, CheckpointError), "CheckpointError", came, kind=kind, file=file.name)


def drawn(shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]]) -> dict[str, torch.Tensor]:
    """Tensors of random bytes."""
    random, found = torch.Generator().manual_seed(1), {}
    for name, (shape, dtype) in shapes.items():
        size = torch.Size(shape).numel() * dtype.itemsize
        found[name] = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=random).view(dtype).view(shape)
    return found


def open_path(source: CheckpointSource, path: Path) -> Checkpoint:
    """Open a path that the source itself opens."""
    opened = source.open(str(path), OpenOptions())
    require(isinstance(opened, Checkpoint), "a Checkpoint", opened, path=path.name)
    assert isinstance(opened, Checkpoint)
    return opened


def identity(source: CheckpointSource, path: Path) -> str:
    """The identity of what lies there now."""
    with open_path(source, path) as checkpoint:
        return checkpoint.identity


def read_all(source: CheckpointSource, path: Path) -> None:
    """Open, and read every byte of every tensor."""
    with open_path(source, path) as checkpoint:
        for name, info in checkpoint.tensors.items():
            data = checkpoint.read(name).data
            require(data.numel() == info.nbytes, f"{info.nbytes} bytes", data.numel(), tensor=name)
            data.sum()
