"""Typed access to a file's keys; an absent or wrong one is an error that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from truecluster.api import CheckpointError

from .cursor import Array, Cursor, decode
from .types import STRING

T = TypeVar("T", str, int, bool)


@attrs.frozen(eq=False)
class Keys:
    """The keys of one file, with the cursor that decodes its arrays."""

    cursor: Cursor
    values: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """The file."""
        return self.cursor.path

    def required(self, key: str, kind: type[T]) -> T:
        """The value of ``key``. Raises `CheckpointError` where it is absent or of another type."""
        if key not in self.values:
            raise CheckpointError(f"{self.path}: key {key!r} is missing; the file can't be used")
        value: object = self.values[key]
        if type(value) is not kind:
            raise CheckpointError(f"{self.path}: key {key!r} must be of type {kind.__name__}, not {_shown(value)}")
        return value

    def optional(self, key: str, kind: type[T], default: T) -> T:
        """Like `required`, with a default for an absent key."""
        return self.required(key, kind) if key in self.values else default

    def only(self, key: str, value: T) -> None:
        """Raise `CheckpointError` where ``key`` is there with another value than the one that is supported."""
        found = self.optional(key, type(value), value)
        if found != value:
            raise CheckpointError(f"{self.path}: key {key!r} = {found!r} is not supported; only {value!r} is")

    def strings(self, key: str) -> list[str]:
        """An array of strings, decoded now."""
        array = self._array(key)
        if array.kind != STRING:
            raise CheckpointError(f"{self.path}: key {key!r} must be an array of strings")
        return decode(self.cursor, array, f"key {key!r}")  # type: ignore[return-value]

    def integers(self, key: str) -> list[int]:
        """An array of whole numbers, decoded now."""
        items = decode(self.cursor, self._array(key), f"key {key!r}")
        if any(type(item) is not int for item in items):
            raise CheckpointError(f"{self.path}: key {key!r} must be an array of whole numbers")
        return items  # type: ignore[return-value]

    def numbers(self, key: str) -> list[float]:
        """An array of finite floats, decoded now."""
        items = decode(self.cursor, self._array(key), f"key {key!r}")
        if not all(isinstance(item, float) and math.isfinite(item) for item in items):
            raise CheckpointError(f"{self.path}: key {key!r} must be an array of finite floats")
        return items  # type: ignore[return-value]

    def _array(self, key: str) -> Array:
        if key not in self.values:
            raise CheckpointError(f"{self.path}: key {key!r} is missing; the file has no usable tokenizer")
        value = self.values[key]
        if not isinstance(value, Array):
            raise CheckpointError(f"{self.path}: key {key!r} must be an array, not {_shown(value)}")
        return value


def _shown(value: object) -> str:
    return "an array" if isinstance(value, Array) else f"{value!r:.60}"
