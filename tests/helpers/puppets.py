"""Coordinators made of a few bytes, for real ``tc node`` processes to join; and the frames they send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
from commands import KEY

from truecluster._wire import messages as wire
from truecluster._wire.codec import decode, encode
from truecluster._wire.handshake import Purpose, prover

PATIENCE = 30.0


def framed(data: bytes) -> bytes:
    """An envelope's bytes with their length in front."""
    return struct.pack(">Q", len(data)) + data


def exactly(sock: socket.socket, size: int) -> bytes:
    data = sock.recv(size, socket.MSG_WAITALL)
    assert len(data) == size, f"{size} bytes were due, the peer left after {len(data)}"
    return data


def hung_up(sock: socket.socket) -> bool:
    """Whether the peer ends the connection; what it still says is read away."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


@attrs.define(eq=False)
class Joined:
    """A node that has joined: both of its connections."""

    control: socket.socket
    bulk: socket.socket
    hello: wire.Hello
    _sent: int = 1

    def send(self, message: wire.Message) -> None:
        """On the control connection."""
        self._sent += 1
        self.control.sendall(framed(encode(message, self._sent)))

    def hear(self) -> wire.Message:
        """The node's next word on it."""
        (length,) = struct.unpack(">Q", exactly(self.control, 8))
        return decode(exactly(self.control, length))[1]


class Puppet:
    """Lets nodes in, one at a time, and says nothing by itself."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE)
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()

    @contextmanager
    def join(self) -> Iterator[Joined]:
        """Wait for a node and let it in."""
        with self._proven(Purpose.CONTROL) as control:
            joined = Joined(control, control, None)  # type: ignore[arg-type]
            hello = joined.hear()
            assert isinstance(hello, wire.Hello)
            ack = wire.HelloAck(
                node_id=hello.node_id, session=1, coordinator_version="0", heartbeat_s=2.0, bulk_ticket=bytes(32)
            )
            control.sendall(framed(encode(ack, 1)))
            with self._proven(Purpose.BULK) as bulk:
                assert exactly(bulk, 32) == bytes(32)
                yield Joined(control, bulk, hello)

    @contextmanager
    def _proven(self, purpose: Purpose) -> Iterator[socket.socket]:
        sock, _ = self._listener.accept()
        with sock:
            sock.settimeout(PATIENCE)
            prover(KEY.encode(), purpose)(lambda size: exactly(sock, size), sock.sendall, False)
            yield sock
