"""From token ids to text, one token at a time, at a cost per token that doesn't grow with the text.

The pieces joined equal the text of all ids at once, and no piece ends inside a character, so a replacement character
U+FFFD is seen only where the model itself wrote bytes that aren't UTF-8. The caller leaves special tokens out.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import cache
from typing import Protocol

_REPLACEMENT = "\ufffd"


class Detokenizer(Protocol):
    """The text of one sequence as it grows."""

    def push(self, id: int) -> str:
        """The text that is certain now; held back while it ends inside a character."""
        ...

    def finish(self) -> str:
        """What was held back."""
        ...


@cache
def _byte_of_letter() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def byte_level(letters: str) -> bytes:
    """The bytes of a byte-level token, which added tokens may spell in other letters."""
    table = _byte_of_letter()
    if all(letter in table for letter in letters):
        return bytes(table[letter] for letter in letters)
    return letters.encode()


class ByteDetokenizer:
    """For byte-level tokenizers: each token is bytes; ``token`` gives its letters, ``None`` for an unknown id."""

    def __init__(self, token: Callable[[int], str | None]) -> None:
        self._token = token
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, id: int) -> str:
        return self._utf8.decode(byte_level(self._token(id) or ""))

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)


class WindowDetokenizer:
    """For every other tokenizer: decode a window that starts before the new token, since decoders look back.

    A window that ends in U+FFFD is held back for at most ``LIMIT`` tokens. Decoders with byte fallback write a run of
    bytes as U+FFFD as a whole when its last character is cut, so there what was already given out stays better.
    """

    LIMIT = 16

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._given = 0  # ids at the window's start whose text was given out
        self._sent = 0  # characters of the window's text that were given out

    def push(self, id: int) -> str:
        self._window.append(id)
        text = self._decode(self._window)
        fresh = text[self._sent :]
        if len(self._window) - self._given < self.LIMIT and (not fresh or fresh.endswith(_REPLACEMENT)):
            return ""
        self._window = self._window[self._given :]
        self._given = len(self._window)
        self._sent = len(self._decode(self._window))
        return fresh

    def finish(self) -> str:
        fresh = self._decode(self._window)[self._sent :]
        self._sent += len(fresh)
        return fresh
