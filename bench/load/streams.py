"""Streams that run in the background while something happens to them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType

from .client import Body, Client
from .samples import Sample
from .target import Target, Unfit

WAIT_S = 120.0


class Streams:
    """One for each of ``bodies``, which must ask for answers that last: all have begun when the block begins.

    The block's end stops them. Raises `Unfit` where one failed, or ended by itself too early.
    """

    def __init__(self, target: Target, bodies: Sequence[Body]) -> None:
        self.client = Client(target)
        self.times: list[list[float]] = [[] for _ in bodies]
        self._ended: list[Sample] = []
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, args=pair) for pair in zip(bodies, self.times, strict=True)
        ]

    def _work(self, body: Body, times: list[float]) -> None:
        def heard(at: float) -> None:
            times.append(at)
            with self._changed:
                self._changed.notify_all()

        sample = self.client.ask(body, heard)
        with self._changed:
            self._ended.append(sample)
            self._changed.notify_all()

    def wait_for(self, more: int) -> None:
        """Until each has had so many more pieces of text."""
        wanted = [len(times) + more for times in self.times]
        with self._changed:
            self._changed.wait_for(lambda: self._ended or all(map(_reached, self.times, wanted)), WAIT_S)
        self.check()
        if not all(map(_reached, self.times, wanted)):
            raise Unfit(f"{self.client.target.url} stopped streaming for {WAIT_S:g} s")

    def check(self) -> None:
        """Raises `Unfit` where one doesn't run any more."""
        if self._ended:
            first = self._ended[0]
            said = first.error or f"ended by itself after {first.tokens} tokens"
            raise Unfit(f"a stream that should have gone on {said}")

    def gaps(self, begin: float, end: float) -> list[float]:
        """Seconds between two pieces of a stream, of which the second came between two times of the client."""
        pairs = [pair for times in self.times for pair in pairwise([*times])]
        return [after - before for before, after in pairs if begin <= after <= end]

    def __enter__(self) -> Streams:
        for thread in self._threads:
            thread.start()
        try:
            self.wait_for(1)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.stop()
        for thread in self._threads:
            thread.join()


def _reached(times: Sequence[float], wanted: int) -> bool:
    return len(times) >= wanted
