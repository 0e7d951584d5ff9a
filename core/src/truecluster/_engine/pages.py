"""Pages of a run: who holds them, and what the full ones hold, so that equal beginnings go through the stages once."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from truecluster.nn import PAGE

KEY_BYTES = 16


def lengthen(chain: list[bytes], tokens: Sequence[int]) -> None:
    """Add the keys of the full pages of ``tokens`` that ``chain`` lacks.

    A page's key is a hash of its tokens and of the key before it, so it stands for all tokens from the first on.
    """
    for first in range(len(chain) * PAGE, len(tokens) // PAGE * PAGE, PAGE):
        before = chain[-1] if chain else b""
        page = array("i", tokens[first : first + PAGE]).tobytes()
        chain.append(hashlib.blake2b(before + page, digest_size=KEY_BYTES).digest())


class Pages:
    """Counts the holders of each page. A page with a key keeps its content when nobody holds it, until it's needed.

    Pages that are given up last are taken last. Nobody writes into a page that has a key: it is full.
    """

    def __init__(self, count: int) -> None:
        self._blank = list(range(count))[::-1]
        self._holders = [0] * count
        self._keys: list[bytes | None] = [None] * count
        self._known: dict[bytes, int] = {}
        self._resting: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._blank) + len(self._resting)

    def take(self) -> int | None:
        """A page to write into, ``None`` if all are held."""
        if self._blank:
            page = self._blank.pop()
        elif self._resting:
            page, _ = self._resting.popitem(last=False)
            self._forget(page)
        else:
            return None
        self._holders[page] = 1
        return page

    def known(self, chain: Sequence[bytes]) -> int:
        """How many pages from the first on are there."""
        return next((i for i, key in enumerate(chain) if key not in self._known), len(chain))

    def held(self, chain: Sequence[bytes]) -> int:
        """How many of the `known` ones somebody holds."""
        return sum(self._holders[self._known[key]] > 0 for key in chain[: self.known(chain)])

    def share(self, chain: Sequence[bytes]) -> list[int]:
        """The `known` pages, held once more."""
        pages = [self._known[key] for key in chain[: self.known(chain)]]
        for page in pages:
            self._holders[page] += 1
            self._resting.pop(page, None)
        return pages

    def keep(self, page: int, key: bytes) -> None:
        """Let others share a page, whose tokens are on their way, unless another page has the same key."""
        if key not in self._known:
            self._known[key] = page
            self._keys[page] = key

    def release(self, pages: Iterable[int]) -> None:
        """Hold a sequence's pages once less. The first ones, which more others begin with, rest longest."""
        for page in reversed(list(pages)):
            self._holders[page] -= 1
            if self._holders[page] == 0:
                self._rest(page)

    def _rest(self, page: int) -> None:
        if self._keys[page] is None:
            self._blank.append(page)
        else:
            self._resting[page] = None

    def _forget(self, page: int) -> None:
        key = self._keys[page]
        assert key is not None
        del self._known[key]
        self._keys[page] = None
