"""The transport that the plugin offers: both of its halves in one object."""

from __future__ import annotations

from .edges import TcpEdges
from .streams import TcpStreams


class TcpTransport(TcpStreams, TcpEdges):
    """TCP for streams and for edges."""
