"""What an engine has done, in plain numbers: counted where it happens, read by whoever looks on, from any thread."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from typing import get_args

import attrs

from .requests import CachedEvent, Event, FinishedEvent, FinishReason, Request, TokenEvent

FIRST_TOKEN = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Seconds to a first token, with what was waited in the queue: the bounds that they are counted by."""
EACH_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds from token to token, the mean of a request."""


@attrs.define(eq=False)
class Spread:
    """How values are spread: ``counts[i]`` are at most ``bounds[i]`` and above the bound before; the last, above all.

    ``sum`` is of the values themselves.
    """

    bounds: tuple[float, ...]
    counts: list[int] = attrs.field(default=attrs.Factory(lambda self: [0] * (len(self.bounds) + 1), takes_self=True))
    sum: float = 0.0

    def note(self, value: float) -> None:
        """Count one more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


@attrs.define(eq=False)
class Tally:
    """Since the engine was made. Tokens of prompts count once their request has ended with an answer, or part of one.

    ``prompt_tokens`` are of all prompts, each choice having its own, ``cached_tokens`` those of them that lay in pages
    already. ``ended`` counts requests by how they ended.
    """

    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    ended: dict[FinishReason, int] = attrs.field(factory=lambda: dict.fromkeys(get_args(FinishReason), 0))
    first_token: Spread = attrs.field(factory=lambda: Spread(FIRST_TOKEN))
    each_token: Spread = attrs.field(factory=lambda: Spread(EACH_TOKEN))
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def end(self, watched: Watched, event: FinishedEvent) -> None:
        """Count a request that has ended; it may end on the thread of whoever cancels it."""
        with self._lock:
            self.ended[event.reason] += 1
            if event.generated or event.reason in ("stop", "length"):
                self.prompt_tokens += len(watched.request.prompt)
                self.cached_tokens += watched.cached
            if untold := event.generated - watched.told:  # what ends an answer isn't told as a token
                self.generated_tokens += untold
            if watched.told:
                self.first_token.note(watched.first - watched.began)
            if watched.told > 1:
                self.each_token.note((watched.last - watched.first) / (watched.told - 1))


@attrs.define(eq=False)
class Watched:
    """One request as its events are told: times on the monotonic clock in seconds, ``told`` tokens of the answer, and
    ``cached`` ones of the prompt."""

    request: Request
    tally: Tally
    began: float = attrs.field(factory=time.monotonic)
    first: float = 0.0
    last: float = 0.0
    told: int = 0
    cached: int = 0

    def hear(self, event: Event) -> None:
        """Tokens come on the engine's thread alone."""
        if isinstance(event, TokenEvent):
            self.last = time.monotonic()
            self.first = self.first or self.last
            self.told += 1
            self.tally.generated_tokens += 1
        elif isinstance(event, CachedEvent):
            self.cached = event.tokens
        elif isinstance(event, FinishedEvent):
            self.tally.end(self, event)
