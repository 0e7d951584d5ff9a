"""The requests that wait for a place: owners take turns, so that many of one don't keep another's from being served."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest

from .sequences import Sequence


class Line:
    """First come, first served among the requests of one owner; owners in turn, a new one after all others.

    So a request waits for at most as many others as it has owners before it, times the place it has in its own
    owner's. Before all of these come sequences that were under way already and were put back.
    """

    def __init__(self) -> None:
        self._back: deque[Sequence] = deque()
        self._turns: dict[str, deque[Sequence]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sequence]:
        """In the order in which they are to be served, if no others come."""
        rounds = zip_longest(*self._turns.values())
        return chain(self._back, (sequence for each in rounds for sequence in each if sequence is not None))

    @property
    def first(self) -> Sequence:
        """Who is next; there must be one."""
        return self._back[0] if self._back else next(iter(self._turns.values()))[0]

    def append(self, sequence: Sequence) -> None:
        self._turns.setdefault(sequence.request.owner, deque()).append(sequence)
        self._count += 1

    def extend(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self.append(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """One that was under way, older than those that were put back before it."""
        self._back.appendleft(sequence)
        self._count += 1

    def take(self) -> Sequence:
        """The `first`, whose owner's turn is over."""
        sequence = self.first
        if not self._back:
            self._turns[sequence.request.owner] = self._turns.pop(sequence.request.owner)
        self.remove(sequence)
        return sequence

    def remove(self, sequence: Sequence) -> None:
        """One that waits no longer."""
        self._count -= 1
        if sequence in self._back:
            self._back.remove(sequence)
            return
        owner = sequence.request.owner
        self._turns[owner].remove(sequence)
        if not self._turns[owner]:
            del self._turns[owner]
