"""Where the tokens of an echoed prompt are in its text."""

from __future__ import annotations

from collections.abc import Iterable

from .tokenizer import Tokenizer


def offsets(tokenizer: Tokenizer, ids: Iterable[int], text: str) -> tuple[int, ...]:
    """Where in ``text``, in characters, each token begins; one that isn't there, such as a leading one, has no width.

    A token that goes on with a character begins where that one does.
    """
    detokenizer = tokenizer.detokenizer()
    found, seen = [], 0
    for id in ids:
        if not tokenizer.is_control(id):
            found.append(seen)
            seen += len(detokenizer.push(id))
        else:
            seen += len(detokenizer.finish())
            found.append(seen)
            literal = tokenizer.bytes_of(id).decode()
            seen += len(literal) if text.startswith(literal, seen) else 0
    return tuple(min(offset, len(text)) for offset in found)
