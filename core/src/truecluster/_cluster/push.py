"""Weights on their way to one node: what it needs, in pieces, one unit after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
from anyio.to_thread import run_sync

from truecluster._weights.catalog import Catalog, Unit
from truecluster._wire.connection import Connection
from truecluster._wire.messages import WeightChunk

CHUNK = 4 << 20
"""Bytes of a piece."""


async def push_units(
    bulk: Connection, run: int, catalog: Catalog, units: Iterable[Unit], progress: Callable[[int], None]
) -> None:
    """Send packed bytes; the next unit is read and checked while one is sent. ``progress`` takes bytes sent so far."""
    filled, ready = anyio.create_memory_object_stream[tuple[Unit, memoryview]](1)

    async def read_ahead() -> None:
        async with filled:
            for unit in units:
                packed = await run_sync(catalog.read, unit)
                await filled.send((unit, packed.data.numpy().data))

    async with anyio.create_task_group() as tasks, ready:
        tasks.start_soon(read_ahead)
        done = 0
        async for unit, data in ready:
            for offset in range(0, len(data), CHUNK):
                piece = data[offset : offset + CHUNK]
                await bulk.send(WeightChunk(run=run, hash=unit.digest, offset=offset, total=len(data)), [piece])
                done += len(piece)
                progress(done)
