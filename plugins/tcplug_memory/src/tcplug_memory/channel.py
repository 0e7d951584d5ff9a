"""The queue between the two threads of an edge."""

from __future__ import annotations

import queue
import threading
from enum import Enum
from typing import NamedTuple

import torch

from truecluster.api import EdgeBroken, EdgeClosed, EdgeEnded, EdgeTimeout

_CAPACITY = 4 << 20


class Side(Enum):
    """Who of the two."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class Parcel(NamedTuple):
    """A message of ``nbytes``: ``payload`` is flat uint8 on the host, nobody else's."""

    header: bytes
    payload: torch.Tensor
    nbytes: int


class Channel:
    """Holds 4 MiB of parcels, or one that is larger; what was put in can be taken out after the producer left.

    One thread puts, one takes, and any may end it. They meet in a queue made in C: a `Condition` would be a dozen
    Python calls a message. ``None`` in it says that one of the two has left.
    """

    def __init__(self, edge: str, timeout: float) -> None:
        self._edge = edge
        self._timeout = timeout
        self._parcels: queue.SimpleQueue[Parcel | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._wanted = False
        self._put = self._taken = 0  # bytes, each counted by one thread
        self._left: set[Side] = set()

    def put(self, parcel: Parcel) -> None:
        """Wait for room, up to the edge's timeout."""
        self._check_producer(EdgeEnded)
        if self._put != self._taken and self._put + parcel.nbytes > self._taken + _CAPACITY:
            self._wait_for_room(parcel.nbytes)
        self._put += parcel.nbytes
        self._parcels.put(parcel)

    def take(self) -> Parcel:
        """Wait for a parcel, without a deadline."""
        parcel = self._parcels.get()
        if parcel is None or Side.CONSUMER in self._left:
            self._parcels.put(None)
            if Side.CONSUMER in self._left:
                raise self._closed_here()
            raise EdgeEnded(f"edge {self._edge}: the producer closed it")
        self._taken += parcel.nbytes
        if self._wanted:
            self._tell()
        return parcel

    def leave(self, side: Side) -> None:
        """From any thread: end it for ``side``, and wake both."""
        self._left.add(side)
        self._parcels.put(None)
        self._tell()

    def _wait_for_room(self, nbytes: int) -> None:
        with self._room:
            self._wanted = True  # before it looks, so that a consumer that it misses tells it
            found = self._room.wait_for(
                lambda: self._left or self._put == self._taken or self._put + nbytes <= self._taken + _CAPACITY,
                self._timeout,
            )
            self._wanted = False
        if not found:
            raise EdgeTimeout(f"edge {self._edge}: the consumer has not made room within {self._timeout:g} s")
        self._check_producer(EdgeBroken)

    def _tell(self) -> None:
        with self._room:
            self._room.notify_all()

    def _check_producer(self, gone: type[EdgeEnded | EdgeBroken]) -> None:
        if not self._left:
            return
        if Side.PRODUCER in self._left:
            raise self._closed_here()
        raise gone(f"edge {self._edge}: the consumer closed it")

    def _closed_here(self) -> EdgeClosed:
        return EdgeClosed(f"edge {self._edge}: this side closed it")
