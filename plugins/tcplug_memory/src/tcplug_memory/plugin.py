"""Offers the in-process transport."""

from truecluster.api import TransportSpec, hookimpl


@hookimpl
def truecluster_transports():  # type: ignore[no-untyped-def]
    yield TransportSpec(
        name="memory",
        target="tcplug_memory.transport:MemoryTransport",
        summary="Streams and edges within one process; nodes are hosted as threads.",
        streams=True,
        edges=True,
        local=True,
    )
