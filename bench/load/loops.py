"""The two ways in which requests come: as fast as so many clients get answers, or at a rate whatever happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import attrs

from .client import Body, Client
from .samples import BUSY, Sample

LONGEST_PAUSE_S = 5.0
"""After a refusal, whatever the server asks for."""


@attrs.frozen
class Closed:
    """``clients`` at once; each sends its next request when its last one has ended, and after 429 when it may."""

    clients: int

    def __str__(self) -> str:
        return f"closed, {self.clients} at once"

    def run(self, client: Client, bodies: Sequence[Body]) -> list[Sample]:
        """Ask all of ``bodies``; a sample of each."""

        def ask(body: Body) -> Sample:
            sample = client.ask(body)
            client.stopped.wait(min(sample.retry_after, LONGEST_PAUSE_S) if sample.status == BUSY else 0)
            return sample

        return _together(client, self.clients, [partial(ask, body) for body in bodies])


@attrs.frozen
class Open:
    """Requests come at ``rate`` a second, at random as `arrivals` says, however many are still under way."""

    rate: float
    seed: int = 0

    def __str__(self) -> str:
        return f"open, {self.rate:.3g}/s"

    def run(self, client: Client, bodies: Sequence[Body]) -> list[Sample]:
        """Ask all of ``bodies``; a sample of each."""
        began = client.now()

        def ask(body: Body, at: float) -> Sample:
            client.stopped.wait(max(0.0, began + at - client.now()))
            return client.ask(body)

        due = zip(bodies, arrivals(self.rate, len(bodies), self.seed), strict=True)
        return _together(client, len(bodies), [partial(ask, body, at) for body, at in due])


def arrivals(rate: float, count: int, seed: int) -> list[float]:
    """Seconds after the beginning at which ``count`` requests come: a Poisson process, the same for the same seed."""
    chance, at = random.Random(seed), 0.0
    return [at := at + chance.expovariate(rate) for _ in range(count)]


def _together(client: Client, threads: int, asks: Sequence[Callable[[], Sample]]) -> list[Sample]:
    """All of them, so many at once; whatever comes up meanwhile, such as Ctrl-C, ends those under way."""
    with ThreadPoolExecutor(threads) as pool:
        try:
            return [future.result() for future in [pool.submit(ask) for ask in asks]]
        except BaseException:
            client.stop()
            raise
