"""The ticket of an edge: where to dial, and the secret that lets one producer in."""

from __future__ import annotations

import struct

import attrs

from truecluster.api import HandshakeError

_FIXED = struct.Struct(">3sH32s")
_MARK = b"tcp"
_MAX_HOST = 255


@attrs.frozen
class Ticket:
    """``secret`` is 32 random bytes, good for one use."""

    host: str
    port: int
    secret: bytes = attrs.field(repr=False)

    def encode(self) -> bytes:
        return _FIXED.pack(_MARK, self.port, self.secret) + self.host.encode()


def decode(data: bytes) -> Ticket:
    """Raises `HandshakeError` for what isn't a ticket of this transport."""
    try:
        mark, port, secret = _FIXED.unpack_from(data)
        host = data[_FIXED.size :].decode()
    except (struct.error, UnicodeDecodeError):
        mark, host = b"", ""
    if mark != _MARK or not 0 < len(host) <= _MAX_HOST:
        raise HandshakeError(
            f"{len(data)} bytes that are no ticket of the tcp transport: both ends of an edge need the same --transport"
        )
    return Ticket(host, port, secret)
