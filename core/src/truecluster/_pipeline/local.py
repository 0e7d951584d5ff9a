"""An edge between two threads of the coordinator: what the engine and its neighbouring stages use."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue

import torch

from truecluster.api import Edge, EdgeBroken, EdgeClosed, EdgeEnded, Place

_UNLIKE = "what came over an edge inside the coordinator is not what its header says"


class _Channel:
    """Messages under way, bounded by what a run lets be in flight, and how the edge ended: ``None`` is behind the last.

    A queue made in C, because a `Condition` is a dozen Python calls a message.
    """

    def __init__(self) -> None:
        self.messages: SimpleQueue[tuple[bytes, list[torch.Tensor]] | None] = SimpleQueue()
        self.ended: type[EdgeClosed] | type[EdgeEnded] | None = None

    def end(self, how: type[EdgeClosed] | type[EdgeEnded]) -> None:
        self.ended = self.ended or how
        self.messages.put(None)


class LocalEdge(Edge):
    """Either end of a channel."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def send(self, header: bytes, tensors: Sequence[torch.Tensor]) -> None:
        if (ended := self._channel.ended) is not None:
            raise ended("the edge inside the coordinator was closed")
        self._channel.messages.put((header, [tensor.clone() for tensor in tensors]))

    def recv(self, place: Place) -> bytes:
        channel = self._channel
        message = channel.messages.get()
        if message is None or channel.ended is EdgeClosed:
            assert channel.ended is not None
            channel.messages.put(None)
            raise channel.ended("the edge inside the coordinator was closed")
        header, tensors = message
        destinations = place(header)
        if len(destinations) != len(tensors):
            raise EdgeBroken(_UNLIKE)
        for destination, tensor in zip(destinations, tensors, strict=True):
            if destination.dtype is not tensor.dtype or destination.shape != tensor.shape:
                raise EdgeBroken(_UNLIKE)
            destination.copy_(tensor)
        return header

    def abort(self) -> None:
        self._channel.end(EdgeClosed)

    def close(self) -> None:
        self._channel.end(EdgeEnded)


def local_edge() -> tuple[LocalEdge, LocalEdge]:
    """Producer's and consumer's end."""
    channel = _Channel()
    return LocalEdge(channel), LocalEdge(channel)
