"""Weights on their way to one node: what it needs, in pieces, one unit after another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

import anyio
import attrs
from anyio.to_thread import run_sync

from truecluster._weights.catalog import Catalog, Unit
from truecluster._wire.connection import Connection
from truecluster._wire.messages import Need, Started, WeightChunk

CHUNK = 4 << 20
"""Bytes of a piece."""


@attrs.frozen(kw_only=True)
class Push:
    """What one node needs of one run's weights."""

    bulk: Connection
    run: int
    catalog: Catalog
    units: tuple[Unit, ...]
    started: Mapping[str, Started]

    @classmethod
    def of(cls, need: Need, bulk: Connection, catalog: Catalog, units: Iterable[Unit]) -> Push:
        """Those of ``units`` that the node says it lacks, each once."""
        wanted = set(need.hashes)
        missing = {unit.digest: unit for unit in units if unit.digest in wanted}
        started = {each.hash: each for each in need.started}
        return cls(bulk=bulk, run=need.run, catalog=catalog, units=tuple(missing.values()), started=started)

    @property
    def total(self) -> int:
        """Bytes of the units, with what the node has of them."""
        return sum(unit.nbytes for unit in self.units)

    async def send(self, progress: Callable[[int], None]) -> int:
        """Send the packed bytes; the next unit is read and checked while one is sent. Returns how many were sent.

        ``progress`` takes the bytes of ``total`` that the node has; what it raises ends the push between two pieces.
        A piece that has begun is sent, also when this is cancelled: the connection serves the next run, too.
        """
        filled, ready = anyio.create_memory_object_stream[tuple[Unit, memoryview, int]](1)

        async def read_ahead() -> None:
            async with filled:
                for unit in self.units:
                    await filled.send((unit, *await run_sync(self._read, unit)))

        async with anyio.create_task_group() as tasks, ready:
            tasks.start_soon(read_ahead)
            done = sent = 0
            async for unit, data, begin in ready:
                done += begin
                for offset in range(begin, len(data), CHUNK):
                    piece = data[offset : offset + CHUNK]
                    with anyio.CancelScope(shield=True):
                        await self.bulk.send(self._header(unit, offset), [piece])
                    done, sent = done + len(piece), sent + len(piece)
                    progress(done)
        return sent

    def _header(self, unit: Unit, offset: int) -> WeightChunk:
        return WeightChunk(run=self.run, hash=unit.digest, offset=offset, total=unit.nbytes)

    def _read(self, unit: Unit) -> tuple[memoryview, int]:
        """A unit's bytes, and where to go on: after what the node has, if it has the same."""
        data = self.catalog.read(unit).data.numpy().data
        started = self.started.get(unit.digest)
        if started is None or started.nbytes >= len(data):
            return data, 0
        same = hashlib.sha256(data[: started.nbytes]).hexdigest() == started.prefix
        return data, started.nbytes if same else 0
