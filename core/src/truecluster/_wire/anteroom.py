"""Where connections wait until their key is proven: as many as there is room for, and none for long."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import anyio

from truecluster.api import HandshakeError

from .handshake import Purpose, accept_async
from .limits import MAX_UNPROVEN

if TYPE_CHECKING:
    from anyio.abc import ByteStream


class Crowded(HandshakeError):
    """The connection had to make room for later ones."""


class Anteroom:
    """The longest there makes room for a newcomer. Who holds the key is through in two round trips, so that is nobody
    who does, unless strangers come faster than that.
    """

    def __init__(self) -> None:
        self._inside: dict[anyio.CancelScope, None] = {}

    async def prove(self, stream: ByteStream, key: bytes, purposes: Collection[Purpose]) -> Purpose:
        """As `accept_async`. Raises `Crowded` too."""
        if len(self._inside) >= MAX_UNPROVEN:
            oldest = next(iter(self._inside))
            del self._inside[oldest]
            oldest.cancel()
        with anyio.CancelScope() as scope:
            self._inside[scope] = None
            try:
                return await accept_async(stream, key, purposes)
            finally:
                self._inside.pop(scope, None)
        raise Crowded(f"more than {MAX_UNPROVEN} connections whose key was not proven: this one made room")
