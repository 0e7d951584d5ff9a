"""The chunks of a streamed answer, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from truecluster._text import AnswerEnd, TextEvent, TextFinished, TextRequest, ToolCalled, succeeded

from .answers import choice, heading, usage
from .logprobs import Piece
from .shapes import Shape


class Chunks:
    """Turns text events into chunks. With ``include_usage`` a last chunk without choices carries the usage."""

    def __init__(self, shape: Shape, model: str, requests: Sequence[TextRequest], include_usage: bool) -> None:
        self._shape = shape
        self._requests = requests
        self._include_usage = include_usage
        self._heading = heading(shape, shape.chunk_object, model)
        self._begun: set[int] = set()
        self._calls: Counter[int] = Counter()
        self._cached = [0] * len(requests)
        self._generated = 0

    def of(self, index: int, event: TextEvent) -> list[dict[str, Any]]:
        """The chunks that an event of choice ``index`` makes. Raises `NodeError` where the choice failed."""
        chunks = self._first(index)
        if isinstance(event, TextFinished):
            self._cached[index] = event.cached
            self._generated += event.generated
            return [*chunks, self._chunk(index, self._shape.last, reason=succeeded(event))]
        if isinstance(event, ToolCalled):
            pieces = self._shape.calls(self._calls[index], event.call)
            self._calls[index] += 1
            return [*chunks, *(self._chunk(index, piece) for piece in pieces)]
        logprobs = self._shape.logprobs(event.scores) if event.scores else None
        return [*chunks, self._chunk(index, self._shape.chunk(event.text), logprobs)]

    def end(self) -> list[dict[str, Any]]:
        """What follows once every choice has ended."""
        if not self._include_usage:
            return []
        return [{**self._heading, "choices": [], "usage": usage(self._requests, self._cached, self._generated)}]

    def _first(self, index: int) -> list[dict[str, Any]]:
        if self._shape.first is None or index in self._begun:
            return []
        self._begun.add(index)
        return [self._chunk(index, self._shape.first)]

    def _chunk(
        self, index: int, piece: Piece, logprobs: Piece | None = None, reason: AnswerEnd | None = None
    ) -> dict[str, Any]:
        chunk = {**self._heading, "choices": [choice(index, piece, logprobs, reason)]}
        return {**chunk, "usage": None} if self._include_usage else chunk
