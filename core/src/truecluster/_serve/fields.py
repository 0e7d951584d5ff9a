"""The fields of a request body: strict types, null counts as absent, and nothing dropped without a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from truecluster.api import RequestError

T = TypeVar("T")
Check = Callable[[str, Any], T]
"""(name, value) → the value. Raises `RequestError` naming the field."""
_IDENTIFIER = re.compile("[a-zA-Z0-9_-]{1,64}")


def refuse(name: str, wanted: str) -> RequestError:
    """The error for a field that must be something else."""
    return RequestError(f"'{name}' must be {wanted}", name)


def string(name: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise refuse(name, "a string")
    return value


def boolean(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise refuse(name, "true or false")
    return value


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise refuse(name, "an object")
    return value


def sequence(name: str, value: Any) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise refuse(name, "a list")
    return value


def identifier(name: str, value: Any) -> str:
    """The name of a function or format, as OpenAI's schema has it."""
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise refuse(name, "1 to 64 letters, digits, underscores and dashes")
    return value


def one_of(*words: str) -> Check[str]:
    """One of some strings."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise refuse(name, " or ".join(map(repr, words)))
        return value

    return check


def integer(low: int, high: int) -> Check[int]:
    """A whole number in a range; neither ``true`` nor ``5.0``."""

    def check(name: str, value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise refuse(name, f"a whole number from {low} to {high}")
        return value

    return check


def number(low: float, high: float) -> Check[float]:
    """A number in a range; not ``true``."""

    def check(name: str, value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise refuse(name, f"a number from {low:g} to {high:g}")
        return float(value)

    return check


def biases(name: str, value: Any) -> dict[int, float]:
    """What is added to logits, by token id; JSON's keys are strings."""
    between = number(-100, 100)
    return {_token_id(name, key): between(f"{name}.{key:.20}", bias) for key, bias in mapping(name, value).items()}


def _token_id(name: str, key: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) < 11):
        raise RequestError(f"'{name}' has the key {key[:20]!a}, which is no token id", name)
    return int(key)


def stop_strings(name: str, value: Any) -> tuple[str, ...]:
    """One string or a list of them."""
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        raise refuse(name, "a string or a list of strings")
    return tuple(strings)


def _is(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


class Fields:
    """An object of a body, taken apart field by field. Errors name a field by its ``path`` in the body."""

    def __init__(self, body: Mapping[str, Any], path: str = "") -> None:
        self._left = {name: value for name, value in body.items() if value is not None}
        self._path = path
        self._inner: list[Fields] = []

    def take(self, name: str, check: Check[T], default: T) -> T:
        """The checked value, or ``default`` where the field is absent or null."""
        return check(self._path + name, self._left.pop(name)) if name in self._left else default

    def given(self, name: str, check: Check[T]) -> dict[str, T]:
        """The checked value under its name; nothing where the field is absent or null."""
        return {name: check(self._path + name, self._left.pop(name))} if name in self._left else {}

    def need(self, name: str, check: Check[T]) -> T:
        """The checked value. Raises `RequestError` where the field is absent or null."""
        if name not in self._left:
            raise RequestError(f"'{self._path}{name}' is missing", self._path + name)
        return check(self._path + name, self._left.pop(name))

    def inside(self, name: str) -> Fields | None:
        """The fields of an object inside this one, whose `unknown` fields count as this one's."""
        value = self.take(name, mapping, None)
        return None if value is None else self._nested(name, value)

    def need_inside(self, name: str) -> Fields:
        """As `inside`. Raises `RequestError` where the object is absent or null."""
        return self._nested(name, self.need(name, mapping))

    def each(self, name: str) -> list[Fields]:
        """As `inside`, of every object in a list, which may be absent."""
        items: list[Any] = self.take(name, sequence, [])
        places = [f"{name}[{i}]" for i in range(len(items))]
        return [self._nested(at, mapping(self._path + at, item)) for at, item in zip(places, items, strict=True)]

    def word_or_inside(self, name: str, words: Sequence[str]) -> str | Fields | None:
        """One of ``words``, or as `inside`."""
        given = self._left.get(name)
        return self.inside(name) if isinstance(given, dict) else self.take(name, one_of(*words), None)

    def _nested(self, name: str, value: Mapping[str, Any]) -> Fields:
        self._inner.append(Fields(value, f"{self._path}{name}."))
        return self._inner[-1]

    def accept(self, harmless: Mapping[str, Check[Any]]) -> None:
        """Take fields that change nothing in the answer."""
        for name, check in harmless.items():
            self.take(name, check, None)

    def refuse_unless(self, neutral: Mapping[str, tuple[Any, ...]], instead: Mapping[str, str]) -> None:
        """Take fields that aren't honoured: each must have one of the values that ask for nothing.

        ``instead`` says for some of them what there is in their place.
        """
        for name in neutral.keys() & self._left.keys():
            if not any(_is(self._left[name], value) for value in neutral[name]):
                path = self._path + name
                raise RequestError(f"'{path}' isn't supported; {instead.get(name, 'leave it out')}", path)
            del self._left[name]

    def unknown(self) -> tuple[str, ...]:
        """The names that nobody took."""
        inner = (name for fields in self._inner for name in fields.unknown())
        return (*(self._path + name for name in self._left), *inner)
