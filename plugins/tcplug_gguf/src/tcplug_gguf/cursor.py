"""Bounded reading: no length or count of the file is believed before the bytes that it promises are known to exist."""

from __future__ import annotations

import struct
from mmap import mmap
from pathlib import Path

import attrs

from truecluster.api import CheckpointError

from .types import ARRAY, BOOL, SCALARS, STRING

_LENGTH = struct.Struct("<Q")


@attrs.frozen(eq=False)
class Array:
    """An array of the file, found but not decoded: ``start`` and ``stop`` are byte offsets."""

    kind: int
    count: int
    start: int
    stop: int


@attrs.define(eq=False)
class Cursor:
    """Reads little-endian values off ``data`` from ``position``; every error names file, place and reason."""

    path: Path
    data: mmap | bytes
    position: int = 0

    def fail(self, reason: str) -> CheckpointError:
        """The error to raise for what stands at the current position."""
        return CheckpointError(f"{self.path}: not a usable GGUF file: at byte {self.position}: {reason}")

    def need(self, count: int, what: str) -> None:
        """Raise unless ``count`` bytes are left."""
        left = len(self.data) - self.position
        if count > left:
            raise self.fail(f"{what} needs {count} bytes, but the file has {left} more; it is damaged or cut short")

    def scalar(self, kind: int, what: str) -> int | float | bool:
        """One number or truth value of a scalar type."""
        _, code, size = SCALARS[kind]
        self.need(size, what)
        (value,) = struct.unpack_from("<" + code, self.data, self.position)
        if kind == BOOL and value > 1:
            raise self.fail(f"{what} is a bool with the value {value}")
        self.position += size
        return bool(value) if kind == BOOL else value

    def integer(self, kind: int, what: str) -> int:
        """One whole number."""
        return int(self.scalar(kind, what))

    def string(self, what: str) -> str:
        """A length of 8 bytes, then UTF-8."""
        length = self.integer(10, f"the length of {what}")
        self.need(length, what)
        raw = self.data[self.position : self.position + length]
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8: {error.reason}") from None
        self.position += length
        return text

    def array(self, what: str) -> Array:
        """Step over an array whose type and count come next."""
        kind, count = self.integer(4, f"the type of {what}"), self.integer(10, f"the count of {what}")
        if kind == ARRAY:
            raise self.fail(f"{what} is an array of arrays, which is not supported")
        if kind != STRING and kind not in SCALARS:
            raise self.fail(f"{what} has items of unknown type {kind}")
        self.need(count * (8 if kind == STRING else SCALARS[kind][2]), f"{what} with {count} items")
        start = self.position
        if kind == STRING:
            self._skip_strings(count, what)
        else:
            self.position += count * SCALARS[kind][2]
        return Array(kind, count, start, self.position)

    def _skip_strings(self, count: int, what: str) -> None:
        read, data, position, last = _LENGTH.unpack_from, self.data, self.position, len(self.data) - 8
        for _ in range(count):
            if position > last:
                break
            position += 8 + read(data, position)[0]
        else:
            if position <= len(data):
                self.position = position
                return
        raise self.fail(f"{what} with {count} items goes past the end of the file; it is damaged or cut short")


def decode(cursor: Cursor, array: Array, what: str) -> list[str] | list[int] | list[float] | list[bool]:
    """The items of an array. Raises `CheckpointError` where a string isn't UTF-8."""
    if array.kind == STRING:
        return _strings(cursor, array, what)
    values = struct.unpack_from(f"<{array.count}{SCALARS[array.kind][1]}", cursor.data, array.start)
    return [bool(value) for value in values] if array.kind == BOOL else list(values)


def _strings(cursor: Cursor, array: Array, what: str) -> list[str]:
    raw, read, position, found = cursor.data[array.start : array.stop], _LENGTH.unpack_from, 0, []
    try:
        for _ in range(array.count):
            stop = position + 8 + read(raw, position)[0]
            found.append(raw[position + 8 : stop].decode())
            position = stop
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{cursor.path}: item {len(found)} of {what} is not UTF-8: {error.reason}; the file is damaged"
        ) from None
    return found
