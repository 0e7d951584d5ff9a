"""Control tokens: finding those that a template wrote, and keeping a user's text from forging them.

Before a template is rendered, every control token's literal inside the user's strings is broken by a *guard*, a
noncharacter that the strings don't contain. The rendered text is then split at the literals that are still whole,
and the guards are taken out of the pieces, which are encoded as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from truecluster.api import RequestError

_NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))


@attrs.frozen(kw_only=True)
class ControlToken:
    """A special token; ``lstrip`` and ``rstrip`` take the white space beside it along."""

    id: int
    text: str
    lstrip: bool = False
    rstrip: bool = False


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def guard_for(value: Any) -> str:
    """A noncharacter that no string inside ``value`` contains. Raises `RequestError` where all are taken."""
    taken = set().union(*_strings(value))
    for guard in _NONCHARACTERS:
        if guard not in taken:
            return guard
    raise RequestError("the text holds every one of the noncharacters U+FDD0 to U+FDEF; leave one of them out")


class ControlTokens:
    """The special tokens of one tokenizer."""

    def __init__(self, tokens: Iterable[ControlToken]) -> None:
        self._by_text = {token.text: token for token in tokens}
        longest_first = sorted(self._by_text, key=len, reverse=True)
        self._literals = "|".join(map(re.escape, longest_first)) or "(?!)"
        self._first_letter = re.compile(f"(?={self._literals}).", re.DOTALL)

    def break_literals(self, value: Any, guard: str) -> Any:
        """A copy of a JSON value in which no string holds a literal without a guard behind its first letter."""
        if isinstance(value, str):
            return self._first_letter.sub(lambda letter: letter[0] + guard, value)
        if isinstance(value, Mapping):
            pairs = value.items()
            return {self.break_literals(key, guard): self.break_literals(item, guard) for key, item in pairs}
        if isinstance(value, (list, tuple)):
            return [self.break_literals(item, guard) for item in value]
        return value

    def split(self, text: str, guard: str) -> list[str | ControlToken]:
        """Plain text and control tokens in turn, text first, without guards; text may be empty."""
        pieces: list[str | ControlToken] = re.split(f"({self._literals})(?!{guard})", text)
        for i in range(1, len(pieces), 2):
            token = self._by_text[str(pieces[i])]
            before, after = str(pieces[i - 1]), str(pieces[i + 1])
            pieces[i - 1 : i + 2] = before.rstrip() if token.lstrip else before, token, _behind(token, after)
        return [piece.replace(guard, "") if isinstance(piece, str) else piece for piece in pieces]

    def first(self, text: str) -> ControlToken | None:
        """The first control token in ``text``."""
        match = re.search(self._literals, text)
        return self._by_text[match[0]] if match else None


def _behind(token: ControlToken, text: str) -> str:
    return text.lstrip() if token.rstrip else text
