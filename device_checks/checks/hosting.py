"""A coordinator that listens, and the nodes that join it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import attrs
from anyio.from_thread import BlockingPortal
from anyio.to_thread import run_sync

from truecluster._cli.progress import Progress
from truecluster._cluster.admission import Admission
from truecluster._cluster.model import ClusterModel
from truecluster._cluster.settings import ClusterOptions
from truecluster._node.transports import Transports
from truecluster._registry import Registry
from truecluster.api import NodeError

from .cluster import Chosen


@attrs.frozen(kw_only=True)
class Place:
    """Where to listen, with which key, and for how many nodes to wait how many seconds.

    ``told`` gets the address once nodes can join.
    """

    host: str
    port: int
    key: str = attrs.field(repr=False)
    nodes: int
    wait: float
    told: Callable[[tuple[str, int]], None]


@asynccontextmanager
async def hosted(registry: Registry, model: ClusterModel, place: Place) -> AsyncIterator[Chosen]:
    """The coordinator, once all nodes are there, until the block ends. Raises `NodeError` where some stay away."""
    transports, admission = Transports(registry), Admission(place.key.encode())
    streams = transports.streams("tcp")
    listener = await streams.listen(place.host, place.port)
    said = ClusterOptions(key=place.key.encode(), min_nodes=place.nodes, device="cpu", restarts=False)
    async with listener, anyio.create_task_group() as tasks, BlockingPortal() as portal:
        tasks.start_soon(listener.serve, admission.accept)
        made = await run_sync(Chosen, registry, model, said, transports, Progress(), admission, portal)
        tasks.start_soon(made.serve)
        await made.listening.wait()
        try:
            place.told(streams.address(listener))
            await _gather(made, place)
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                await made.close()
            tasks.cancel_scope.cancel()
    transports.close()


async def _gather(made: Chosen, place: Place) -> None:
    with anyio.move_on_after(place.wait):
        while len(made.nodes.ready()) < place.nodes:
            await made.nodes.changed.wait()
        return
    here = len(made.nodes.ready())
    raise NodeError(f"{here} of {place.nodes} nodes joined within {place.wait:g} s: start the others, or give --nodes")
