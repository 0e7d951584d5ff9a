"""Which sequence holds which pages: given as they are needed, shared where beginnings are equal."""

from __future__ import annotations

from collections.abc import Iterable

from truecluster.nn import PAGE

from .pages import Pages, lengthen
from .sequences import Sequence

GROWTH = 4 * PAGE
"""Tokens that a sequence is expected to grow by when it is decided whether there is room for another one."""


class Holdings:
    """The pages of a run's sequences. Without ``sharing`` no sequence begins with pages of another."""

    def __init__(self, pages: int, sharing: bool) -> None:
        self._pages = Pages(pages)
        self._sharing = sharing

    @property
    def free(self) -> int:
        """Pages that no sequence holds."""
        return self._pages.free

    def has_room(self, sequence: Sequence, active: Iterable[Sequence]) -> bool:
        """Whether there are pages for one more, and for what those under way are soon to need."""
        self._lengthen(sequence)
        needed = _soon(sequence) - self._pages.held(sequence.chain)
        return needed + sum(_soon(s) - len(s.pages) for s in active) <= self.free

    def start(self, sequence: Sequence, active: Iterable[Sequence]) -> bool:
        """Take the pages that hold its beginning, unless one of ``active`` is about to make more of them."""
        chain = sequence.chain[: sequence.asked // PAGE]  # what logits are wanted of has to go through the stages
        lacking = chain[self._pages.known(chain) :][:1]
        if lacking and any(s.started and lacking[0] in s.chain[s.kept :] for s in active):
            return False
        sequence.start(self._pages.share(chain))
        return True

    def extend(self, sequence: Sequence) -> bool:
        """Another page; ``False`` if none is free."""
        page = self._pages.take()
        if page is not None:
            sequence.pages.append(page)
        return page is not None

    def went(self, sequence: Sequence, count: int) -> None:
        """So many tokens are on their way, so later steps find what its full pages hold."""
        sequence.sent += count
        sequence.asked = max(sequence.asked, sequence.sent)
        sequence.named = len(sequence.pages)
        if self._sharing and sequence.sent // PAGE > sequence.kept:
            self._keep(sequence)

    def release(self, sequence: Sequence) -> None:
        """All of its pages; it is to begin again, if at all."""
        self._pages.release(sequence.pages)
        sequence.forget()

    def _keep(self, sequence: Sequence) -> None:
        """Its full pages for others."""
        lengthen(sequence.chain, sequence.tokens)
        full = sequence.sent // PAGE
        for page, key in zip(sequence.pages[sequence.kept : full], sequence.chain[sequence.kept : full], strict=True):
            self._pages.keep(page, key)
        sequence.kept = full

    def _lengthen(self, sequence: Sequence) -> None:
        if self._sharing:
            lengthen(sequence.chain, sequence.tokens)


def _soon(sequence: Sequence) -> int:
    """Pages for its tokens and those that it is expected to grow by."""
    return -(-min(len(sequence.tokens) + GROWTH, sequence.length) // PAGE)
