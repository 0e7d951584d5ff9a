"""An edge between two threads of the coordinator: what the engine and its neighbouring stages use."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import torch

from truecluster.api import Edge, EdgeBroken, EdgeClosed, EdgeEnded, Place


class _Channel:
    """Messages under way, bounded by what a run lets be in flight, and how the edge ended."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.messages: deque[tuple[bytes, list[torch.Tensor]]] = deque()
        self.ended: type[EdgeClosed] | type[EdgeEnded] | None = None

    def end(self, how: type[EdgeClosed] | type[EdgeEnded]) -> None:
        with self.changed:
            self.ended = self.ended or how
            self.changed.notify_all()


class LocalEdge(Edge):
    """Either end of a channel."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def send(self, header: bytes, tensors: Sequence[torch.Tensor]) -> None:
        channel = self._channel
        with channel.changed:
            if channel.ended:
                raise channel.ended("the edge inside the coordinator was closed")
            channel.messages.append((header, [tensor.clone() for tensor in tensors]))
            channel.changed.notify_all()

    def recv(self, place: Place) -> bytes:
        channel = self._channel
        with channel.changed:
            channel.changed.wait_for(lambda: channel.messages or channel.ended)
            if channel.ended is EdgeClosed or not channel.messages:
                assert channel.ended is not None
                raise channel.ended("the edge inside the coordinator was closed")
            header, tensors = channel.messages.popleft()
        destinations = place(header)
        if [(t.shape, t.dtype) for t in destinations] != [(t.shape, t.dtype) for t in tensors]:
            raise EdgeBroken("what came over an edge inside the coordinator is not what its header says")
        for destination, tensor in zip(destinations, tensors, strict=True):
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
