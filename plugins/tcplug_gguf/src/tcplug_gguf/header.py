"""What stands before the tensor data: keys and tensor descriptions, as in the GGUF specification, versions 2 and 3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import attrs

from .cursor import Array, Cursor
from .types import ARRAY, SCALARS, STRING, SUPPORTED, TENSOR_TYPES, UNSUPPORTED, TensorType

MAGIC = b"GGUF"
SMALLEST_KEY, SMALLEST_TENSOR = 13, 32
"""Bytes of a key with a one-byte value, and of a one-dimensional tensor's description, without their names."""
MAX_DIMS = 4


@attrs.frozen
class Place:
    """A tensor's type, its shape as ``[out, in]``, and the bytes ``start:stop`` of the file."""

    kind: TensorType
    shape: tuple[int, ...]
    start: int
    stop: int


@attrs.frozen(eq=False)
class Header:
    """``values`` holds scalars, strings and undecoded arrays by key; data begins at ``stop``."""

    values: Mapping[str, Any]
    tensors: Mapping[str, Place]
    stop: int


def read_header(cursor: Cursor) -> Header:
    """Parse and check everything but the tensors' bytes. Raises `CheckpointError`."""
    tensors, keys = _opening(cursor)
    values = _values(cursor, keys)
    alignment = _alignment(cursor, values)
    found = _tensors(cursor, tensors)
    stop = cursor.position + -cursor.position % alignment
    places = {name: _placed(cursor, name, *described, stop, alignment) for name, described in found.items()}
    _refuse_overlap(cursor, places)
    return Header(values, places, stop)


def _opening(cursor: Cursor) -> tuple[int, int]:
    """The counts of tensors and of keys."""
    if bytes(cursor.data[:4]) != MAGIC:
        raise cursor.fail(f"it begins with {bytes(cursor.data[:4])!r}, not with {MAGIC!r}")
    cursor.position = 4
    version = cursor.integer(4, "the version")
    if version & 0xFFFF == 0:
        raise cursor.fail("it is big-endian; only little-endian files are supported")
    if version not in (2, 3):
        raise cursor.fail(f"its version is {version}; supported: 2, 3")
    tensors, keys = cursor.integer(10, "the tensor count"), cursor.integer(10, "the key count")
    cursor.need(tensors * SMALLEST_TENSOR + keys * SMALLEST_KEY, f"a header of {keys} keys and {tensors} tensors")
    return tensors, keys


def _values(cursor: Cursor, count: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for index in range(count):
        key = cursor.string(f"the name of key {index}")
        if key in values:
            raise cursor.fail(f"key {key!r} stands there twice")
        values[key] = _value(cursor, key)
    return values


def _value(cursor: Cursor, key: str) -> str | int | float | bool | Array:
    kind, what = cursor.integer(4, f"the type of {key!r}"), f"the value of {key!r}"
    if kind == STRING:
        return cursor.string(what)
    if kind == ARRAY:
        return cursor.array(what)
    if kind not in SCALARS:
        raise cursor.fail(f"{what} is of unknown type {kind}")
    return cursor.scalar(kind, what)


def _alignment(cursor: Cursor, values: Mapping[str, Any]) -> int:
    value = values.get("general.alignment", 32)
    if isinstance(value, bool) or not isinstance(value, int) or value < 8 or value & (value - 1):
        raise cursor.fail(f"general.alignment is {value!r}; it must be a power of two, at least 8")
    return value


def _tensors(cursor: Cursor, count: int) -> dict[str, tuple[TensorType, tuple[int, ...], int]]:
    found: dict[str, tuple[TensorType, tuple[int, ...], int]] = {}
    for _ in range(count):
        name, described = _tensor(cursor)
        if name in found:
            raise cursor.fail(f"tensor {name!r} stands there twice")
        found[name] = described
    return found


def _tensor(cursor: Cursor) -> tuple[str, tuple[TensorType, tuple[int, ...], int]]:
    name = cursor.string("a tensor's name")
    count = cursor.integer(4, f"the number of dimensions of tensor {name!r}")
    if not 1 <= count <= MAX_DIMS:
        raise cursor.fail(f"tensor {name!r} has {count} dimensions; between 1 and {MAX_DIMS} are possible")
    dims = [cursor.integer(10, f"a dimension of tensor {name!r}") for _ in range(count)]
    number = cursor.integer(4, f"the type of tensor {name!r}")
    offset = cursor.integer(10, f"the offset of tensor {name!r}")
    if number not in TENSOR_TYPES:
        known = f" ({UNSUPPORTED[number]})" if number in UNSUPPORTED else ""
        raise cursor.fail(
            f"tensor {name!r} uses quantisation type {number}{known}, unsupported; supported: {SUPPORTED}"
        )
    if 0 in dims:
        raise cursor.fail(f"tensor {name!r} has a dimension of 0: {dims}")
    if dims[0] % TENSOR_TYPES[number].block:
        raise cursor.fail(f"tensor {name!r} has rows of {dims[0]} elements, no multiple of its type's block")
    return name, (TENSOR_TYPES[number], tuple(reversed(dims)), offset)


def _placed(
    cursor: Cursor, name: str, kind: TensorType, shape: tuple[int, ...], offset: int, base: int, alignment: int
) -> Place:
    start = base + offset
    stop = start + math.prod(shape) // kind.block * kind.nbytes
    if offset % alignment:
        raise cursor.fail(f"tensor {name!r} has offset {offset}, no multiple of the alignment {alignment}")
    if stop > len(cursor.data):
        raise cursor.fail(
            f"tensor {name!r} lies in bytes {start} to {stop}, but the file has {len(cursor.data)}; "
            "it is damaged or cut short"
        )
    return Place(kind, shape, start, stop)


def _refuse_overlap(cursor: Cursor, places: Mapping[str, Place]) -> None:
    ordered = sorted(places.items(), key=lambda item: item[1].start)
    for (first, before), (second, after) in pairwise(ordered):
        if after.start < before.stop:
            raise cursor.fail(f"tensors {first!r} and {second!r} overlap")
