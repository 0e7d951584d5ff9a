"""Damaged and hostile files end in one clear error, at once. Written by hand, as the specification lays files out."""

from __future__ import annotations

import struct
import time

import pytest
from tcplug_gguf.checkpoint import GgufSource

from truecluster.api import CheckpointError, OpenOptions

U32, STRING, ARRAY = 4, 8, 9


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


ARCHITECTURE = key("general.architecture", STRING, text("llama"))


def tensor(name: str = "t", dims: tuple[int, ...] = (8,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def file(
    keys: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    data: bytes = b"",
    alignment: int = 32,
    version: int = 3,
) -> bytes:
    keys = [ARCHITECTURE] if keys is None else keys
    tensors = tensors or []
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


def refuse(tmp_path, content: bytes, *words: str) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    started = time.process_time()  # other processes may take the processor meanwhile
    with pytest.raises(CheckpointError) as caught:
        GgufSource().open(str(path), OpenOptions())
    assert time.process_time() - started < 1
    for word in (str(path), *words):
        assert word in str(caught.value)


def opened(tmp_path, content: bytes):
    path = tmp_path / "good.gguf"
    path.write_bytes(content)
    return GgufSource().open(str(path), OpenOptions())


def test_a_file_by_hand_opens(tmp_path):
    numbers = struct.pack("<6f", *range(6))
    checkpoint = opened(tmp_path, file(tensors=[tensor("w.weight", (3, 2))], data=numbers))
    packed = checkpoint.read("w.weight")
    assert (packed.format, packed.shape) == ("fp32", (2, 3))
    assert bytes(packed.data.tolist()) == numbers


def test_version_2_opens(tmp_path):
    assert opened(tmp_path, file(version=2)).model_type == "llama"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"GG", "begins with"),
        (b"PK\x03\x04" + bytes(64), "begins with"),
        (b"GGUF\x03\x00", "version"),
        (file(version=1), "version is 1"),
        (file(version=4), "version is 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "cut short"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "cut short"),
    ],
)
def test_the_opening(tmp_path, content, word):
    """GGUF-03: empty, two bytes, another magic, cut off, counts that no file could hold."""
    refuse(tmp_path, content, word)


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ([key("k", ARRAY, struct.pack("<IQ", U32, 2**40))], "'k'"),
        ([key("k", ARRAY, struct.pack("<IQ", STRING, 2**60))], "'k'"),
        ([key("k", ARRAY, struct.pack("<IQQ", STRING, 2, 2**62) + bytes(40))], "goes past the end"),
        ([key("k", ARRAY, struct.pack("<IQ", ARRAY, 1) + struct.pack("<IQ", ARRAY, 1) * 40)], "array of arrays"),
        ([key("k", ARRAY, struct.pack("<IQ", 77, 1) + bytes(16))], "unknown type 77"),
        ([key("k", STRING, struct.pack("<Q", 2**64 - 1))], "'k'"),
        ([key("k", 99, bytes(16))], "unknown type 99"),
        ([key("k", 7, b"\x02")], "bool"),
        ([key("k", STRING, struct.pack("<Q", 2) + b"\xff\xfe")], "UTF-8"),
        ([ARCHITECTURE, ARCHITECTURE], "twice"),
        ([struct.pack("<Q", 2**63) + bytes(16)], "name of key 0"),
        ([key("x", U32, struct.pack("<I", 1))], "'general.architecture' is missing"),
        ([key("general.architecture", U32, struct.pack("<I", 1))], "must be of type str, not 1"),
        ([ARCHITECTURE, key("split.count", U32, struct.pack("<I", 3))], "one of 3 pieces"),
    ],
)
def test_keys(tmp_path, keys, word):
    """GGUF-03, GGUF-04: a declared length is never believed."""
    refuse(tmp_path, file(keys), word)


@pytest.mark.parametrize(("kind", "name"), [(9, "Q8_1"), (26, "I32"), (28, "F64"), (41, "Q1_0")])
def test_a_known_type_that_is_not_read_is_named(tmp_path, kind, name):
    """GGUF-01."""
    content = file(tensors=[tensor("blk.0.x", (256,), kind)], data=bytes(4096))
    refuse(tmp_path, content, f"tensor 'blk.0.x' uses quantisation type {kind} ({name}), unsupported; supported: F32")


@pytest.mark.parametrize("kind", [42, 153])
def test_an_unknown_tensor_type_is_named(tmp_path, kind):
    """GGUF-01."""
    content = file(tensors=[tensor("blk.0.x", (32,), kind)], data=bytes(64))
    refuse(tmp_path, content, f"tensor 'blk.0.x' uses quantisation type {kind}, unsupported; supported: F32, F16")


@pytest.mark.parametrize(
    ("tensors", "word"),
    [
        ([tensor(dims=())], "0 dimensions"),
        ([tensor(dims=(1,) * 5)], "5 dimensions"),
        ([text("t") + struct.pack("<I", 10**6) + bytes(64)], "1000000 dimensions"),
        ([tensor(dims=(8, 0))], "dimension of 0"),
        ([tensor(dims=(4194305, 4194305, 211106198978564))], "cut short"),
        ([tensor(dims=(2**63, 2))], "cut short"),
        ([tensor(dims=(33,), kind=8)], "no multiple of its type's block"),
        ([tensor(offset=4)], "no multiple of the alignment"),
        ([tensor(offset=2**62)], "cut short"),
        ([tensor(dims=(1024,))], "cut short"),
        ([tensor("a"), tensor("a", offset=32)], "'a' stands there twice"),
        ([tensor("a", (16,)), tensor("b", offset=32)], "'a' and 'b' overlap"),
    ],
)
def test_tensors(tmp_path, tensors, word):
    """GGUF-03, SEC-15: products are Python's whole numbers, which don't wrap; the file's size bounds them."""
    refuse(tmp_path, file(tensors=tensors, data=bytes(256)), word)


@pytest.mark.parametrize("alignment", [0, 1, 3, 12, 2])
def test_a_bad_alignment_is_refused(tmp_path, alignment):
    """GGUF-06."""
    keys = [ARCHITECTURE, key("general.alignment", U32, struct.pack("<I", alignment))]
    refuse(tmp_path, file(keys), "general.alignment", str(alignment))


def test_an_alignment_beyond_the_file_is_refused(tmp_path):
    """GGUF-06."""
    keys = [ARCHITECTURE, key("general.alignment", U32, struct.pack("<I", 2**30))]
    refuse(tmp_path, file(keys, [tensor()], bytes(64)), "cut short")


@pytest.mark.parametrize("alignment", [8, 64, 256])
@pytest.mark.parametrize("padding", range(0, 64, 7))
def test_data_begins_at_the_next_multiple_of_the_alignment(tmp_path, alignment, padding):
    """GGUF-06: also where the descriptions end on one, then without a gap."""
    keys = [
        ARCHITECTURE,
        key("general.alignment", U32, struct.pack("<I", alignment)),
        key("padding", STRING, text("." * padding)),
    ]
    numbers = struct.pack("<8f", *range(8))
    checkpoint = opened(tmp_path, file(keys, [tensor()], numbers, alignment))
    assert bytes(checkpoint.read("t").data.tolist()) == numbers


def test_data_is_right_where_the_descriptions_end_on_the_alignment(tmp_path):
    """GGUF-06."""
    numbers, head = struct.pack("<8f", *range(8)), 0
    for padding in range(32):
        keys = [ARCHITECTURE, key("padding", STRING, text("." * padding))]
        content = file(keys, [tensor()])
        head += len(content) == len(file(keys, [tensor()], alignment=1))
        assert bytes(opened(tmp_path, content + numbers).read("t").data.tolist()) == numbers
    assert head == 1


def test_gaps_between_tensors_are_legal(tmp_path):
    numbers = struct.pack("<8f", *range(8))
    content = file(tensors=[tensor("b", offset=64), tensor("a")], data=numbers + bytes(32) + numbers)
    assert bytes(opened(tmp_path, content).read("b").data.tolist()) == numbers


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(CheckpointError, match="no such file"):
        GgufSource().open(str(tmp_path / "absent.gguf"), OpenOptions())
