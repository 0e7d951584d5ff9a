"""Where a node's edges listen, and where its neighbours are told to dial."""

from __future__ import annotations

import attrs

from truecluster._wire.addresses import EVERYWHERE


@attrs.frozen(kw_only=True)
class EdgeAddress:
    """What the user said: ``host`` and ``port`` to listen on, ``advertised`` for others to dial.

    ``None`` is the address that the node has towards its coordinator, port 0 a free one. Where the node isn't
    ``dialable``, its own edges dial, to neighbours or to the coordinator's relay.
    """

    host: str | None = None
    port: int = 0
    advertised: str | None = None
    dialable: bool = True

    def listen_host(self, local: str) -> str:
        """``local`` is the node's own address of its coordinator connection."""
        return self.host or local

    def dial_host(self, local: str) -> str | None:
        """For neighbours; ``None`` where they can't dial the node. A scope id means something on this machine only."""
        host = self.advertised or (local if self.host is None or self.host in EVERYWHERE else self.host)
        return host if self.dialable and "%" not in host else None
