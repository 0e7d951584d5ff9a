"""The ticket of an edge: who offered it, where to dial, and the secret that lets one peer in."""

from __future__ import annotations

import struct

import attrs

from truecluster.api import EdgeRole, HandshakeError

_FIXED = struct.Struct(">3scH32s")
_MARK = b"tcp"
_MAX_HOST = 255
_CODES: dict[EdgeRole, bytes] = {"producer": b"P", "consumer": b"C"}
_ROLES = {code: role for role, code in _CODES.items()}


@attrs.frozen
class Ticket:
    """``secret`` is 32 random bytes, good for one use; ``host`` may be empty."""

    offered_by: EdgeRole
    host: str
    port: int
    secret: bytes = attrs.field(repr=False)

    def encode(self) -> bytes:
        return _FIXED.pack(_MARK, _CODES[self.offered_by], self.port, self.secret) + self.host.encode()


def decode(data: bytes) -> Ticket:
    """Raises `HandshakeError` for what isn't a ticket of this transport."""
    try:
        mark, code, port, secret = _FIXED.unpack_from(data)
        host = data[_FIXED.size :].decode()
    except (struct.error, UnicodeDecodeError):
        mark, code, host = b"", b"", ""
    if mark != _MARK or code not in _ROLES or len(host) > _MAX_HOST:
        raise HandshakeError(
            f"{len(data)} bytes that are no ticket of the tcp transport: both ends of an edge need the same --transport"
        )
    return Ticket(_ROLES[code], host, port, secret)
