"""The contract of transports: of their streams, their edges, or both."""

from __future__ import annotations

from truecluster._wire.handshake import prover as prover  # a plugin's own tests need it too

from ._edges import EdgeContract as EdgeContract
from ._streams import StreamContract


class TransportContract(StreamContract, EdgeContract):
    """Name ``offer``. What its spec doesn't offer is skipped, and must be refused."""
