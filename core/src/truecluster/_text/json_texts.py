"""JSON inside a growing text: where a value ends, and the texts of its parts as they were written."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Any, NoReturn

import attrs

_OUTSIDE_STRINGS = frozenset(' \t\r\n,:{}[]"+-.0123456789Etruefalsn')
_CLOSERS = {"{": "}", "[": "]"}
_BETWEEN = re.compile(r"[ \t\r\n,:]*")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} isn't JSON")


_DECODER = JSONDecoder(parse_constant=_refuse)


def decode(text: str) -> Any:
    """A JSON value; neither NaN nor an infinity. Raises `ValueError` or `RecursionError` where it isn't valid."""
    return _DECODER.decode(text)


def parts(container: str) -> list[str]:
    """The texts of the values in a valid list, or of the names and values in turn in a valid object."""
    found, at = [], _behind(container, 1)
    while at < len(container) - 1:
        end = _DECODER.raw_decode(container, at)[1]
        found.append(container[at:end])
        at = _behind(container, end)
    return found


def _behind(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


@attrs.define
class Extent:
    """How far a text's first letters may be a JSON object or list: by brackets, strings and letters, nothing more."""

    length: int = 0
    _closers: list[str] = attrs.field(factory=list)
    _in_string: bool = False
    _escaped: bool = False
    complete: bool = False

    def grow(self, text: str) -> bool:
        """Look at what is new in ``text``, up to the value's end. False where a letter can't stand at ``length``."""
        while not self.complete and self.length < len(text):
            if not self._takes(text[self.length]):
                return False
            self.length += 1
        return True

    def _takes(self, letter: str) -> bool:
        if self._in_string:
            return self._takes_in_string(letter)
        if letter in _CLOSERS:
            self._closers.append(_CLOSERS[letter])
        elif letter in "}]":
            return self._closes(letter)
        self._in_string = letter == '"'
        return letter in " \t\r\n" or (bool(self._closers) and letter in _OUTSIDE_STRINGS)

    def _closes(self, letter: str) -> bool:
        if not self._closers or self._closers.pop() != letter:
            return False
        self.complete = not self._closers
        return True

    def _takes_in_string(self, letter: str) -> bool:
        self._in_string = self._escaped or letter != '"'
        self._escaped = letter == "\\" and not self._escaped
        return letter >= " "
