"""The weights of one stage on their way to this node's store: what is missing, and the pieces that come. Blocking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Container

import torch

from truecluster._weights.store import Store
from truecluster._weights.writing import ObjectWriter
from truecluster._wire import messages as wire
from truecluster.api import NodeError

LOG = logging.getLogger(__name__)


class Receiving:
    """`look` once, then `write` for each piece; `release` at the end, whatever came.

    ``ready`` are hashes that the node has in memory. What was read from the store to check it lies in ``checked``.
    """

    def __init__(self, assignment: wire.Assignment, store: Store, ready: Container[str]) -> None:
        self.checked: dict[str, torch.Tensor] = {}
        self.received = 0
        """Bytes that came."""
        self.done_bytes = 0
        """How much of the weights `look` has gone through."""
        self._sizes = {unit.hash: unit.nbytes for unit in assignment.units}
        self._store = store
        self._ready = ready
        self._missing: set[str] = set()
        self._begun: dict[str, ObjectWriter] = {}
        self._writing: tuple[wire.WeightChunk, ObjectWriter] | None = None
        self._over = False
        self._turn = threading.Lock()

    @property
    def total(self) -> int:
        """Bytes of all weights of the stage."""
        return sum(self._sizes.values())

    def look(self) -> tuple[tuple[str, ...], tuple[wire.Started, ...]]:
        """What the store lacks or has damaged, and what it has the beginning of.

        Raises `NodeError` where the rest doesn't fit.
        """
        with self._turn:
            self._store.hold(self._sizes)
            self._missing = {digest for digest in self._sizes if not self._has(digest)}
            for digest in self._store.claim(self._missing):
                self._begun[digest] = self._store.writer(digest, self._sizes[digest])
            started = tuple(wire.Started(hash=d, nbytes=w.done, prefix=w.digest) for d, w in self._begun.items())
            incoming = sum(self._sizes[digest] for digest in self._missing) - sum(each.nbytes for each in started)
            self._store.make_room(incoming)
            LOG.info("weights: %.1f MB are here, %.1f MB are to come", (self.total - incoming) / 1e6, incoming / 1e6)
            return tuple(digest for digest in self._sizes if digest in self._missing), started

    def write(self, chunk: wire.WeightChunk, data: memoryview) -> None:
        """The next piece of a missing unit; units come one after another, whole. After an error nothing is taken."""
        with self._turn:
            if self._over:
                return
            self._over = True
            self._write(chunk, data)
            self._over = False

    def abandon(self) -> None:
        """From another thread: make `look` raise, and take nothing more."""
        self._over = True

    def release(self) -> None:
        """Keep the beginnings of units that aren't whole for a next time, and let the store delete what it likes."""
        self._over = True
        with self._turn:
            if self._writing is not None:
                self._begun[self._writing[0].hash] = self._writing[1]
                self._writing = None
            for digest, writer in self._begun.items():
                writer.suspend(digest)
            self._begun.clear()
            self.checked.clear()
            self._store.let_go()

    def _has(self, digest: str) -> bool:
        """Bytes that are checked here are kept for the load, so that they are read once."""
        if self._over:
            raise NodeError("the run was stopped while its stage was made ready")
        self.done_bytes += self._sizes[digest]
        if digest in self._ready:
            return True
        data = self._store.read(digest)
        if data is not None:
            self.checked[digest] = data
        return data is not None

    def _write(self, chunk: wire.WeightChunk, data: memoryview) -> None:
        first, writer = self._writing = self._writing or (chunk, self._begin(chunk))
        if (chunk.hash, chunk.offset) != (first.hash, writer.done) or writer.done + data.nbytes > chunk.total:
            raise NodeError(f"weights came out of order: byte {chunk.offset} of {chunk.hash[:12]}…")
        writer.write(data)
        self.received += data.nbytes
        if writer.done == chunk.total:
            self._writing = None
            with writer:
                writer.commit(chunk.hash)
            self._missing.discard(chunk.hash)

    def _begin(self, chunk: wire.WeightChunk) -> ObjectWriter:
        if chunk.hash not in self._missing or self._sizes[chunk.hash] != chunk.total:
            raise NodeError(f"weights came that were not asked for: {chunk.hash[:12]}… of {chunk.total} bytes")
        writer = self._begun.pop(chunk.hash, None) or self._store.writer(chunk.hash, chunk.total)
        if chunk.offset == 0:  # the coordinator has other bytes there than came before, or nothing came before
            writer.restart()
        return writer
