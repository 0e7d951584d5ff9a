"""The transport that the plugin offers: all nodes of a process share one object."""

from __future__ import annotations

from .edges import MemoryEdges
from .streams import MemoryStreams


class MemoryTransport(MemoryStreams, MemoryEdges):
    """Addresses and tickets mean something only to the object that gave them out."""

    def __init__(self) -> None:
        MemoryStreams.__init__(self)
        MemoryEdges.__init__(self)
