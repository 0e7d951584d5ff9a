"""The queue between the two threads of an edge."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum

import attrs
import torch

from truecluster.api import EdgeBroken, EdgeClosed, EdgeEnded, EdgeTimeout

_CAPACITY = 4 << 20


class Side(Enum):
    """Who of the two."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


@attrs.frozen(eq=False)
class Parcel:
    """A message: ``payload`` is flat uint8 on the host, nobody else's."""

    header: bytes
    payload: torch.Tensor

    @property
    def nbytes(self) -> int:
        return len(self.header) + self.payload.nbytes


class Channel:
    """Holds 4 MiB of parcels, or one that is larger; what was put in can be taken out after the producer left."""

    def __init__(self, edge: str, timeout: float) -> None:
        self._edge = edge
        self._timeout = timeout
        self._changed = threading.Condition()
        self._parcels: deque[Parcel] = deque()
        self._held = 0
        self._left: set[Side] = set()

    def put(self, parcel: Parcel) -> None:
        """Wait for room, up to the edge's timeout."""
        with self._changed:
            self._check_producer(EdgeEnded)
            if not self._wait(lambda: self._has_room(parcel.nbytes) or bool(self._left), self._timeout):
                raise EdgeTimeout(f"edge {self._edge}: the consumer has not made room within {self._timeout:g} s")
            self._check_producer(EdgeBroken)
            self._parcels.append(parcel)
            self._held += parcel.nbytes
            self._changed.notify_all()

    def take(self) -> Parcel:
        """Wait for a parcel, without a deadline."""
        with self._changed:
            self._wait(lambda: bool(self._parcels or self._left), None)
            if Side.CONSUMER in self._left:
                raise self._closed_here()
            if not self._parcels:
                raise EdgeEnded(f"edge {self._edge}: the producer closed it")
            parcel = self._parcels.popleft()
            self._held -= parcel.nbytes
            self._changed.notify_all()
            return parcel

    def leave(self, side: Side) -> None:
        """From any thread: end it for ``side``, and wake both."""
        with self._changed:
            self._left.add(side)
            if side is Side.CONSUMER:
                self._parcels.clear()
            self._changed.notify_all()

    def _check_producer(self, gone: type[EdgeEnded | EdgeBroken]) -> None:
        if Side.PRODUCER in self._left:
            raise self._closed_here()
        if Side.CONSUMER in self._left:
            raise gone(f"edge {self._edge}: the consumer closed it")

    def _has_room(self, nbytes: int) -> bool:
        return not self._parcels or self._held + nbytes <= _CAPACITY

    def _wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        return self._changed.wait_for(ready, timeout)

    def _closed_here(self) -> EdgeClosed:
        return EdgeClosed(f"edge {self._edge}: this side closed it")
