"""Exact reads and writes on a blocking socket, all of them before one moment."""

from __future__ import annotations

import socket
import time

from truecluster.api import EdgeBroken, EdgeEnded, EdgeTimeout


class Deadline:
    """A moment ``seconds`` from now, on the monotonic clock; ``what`` has to be done by then."""

    def __init__(self, seconds: float, what: str) -> None:
        self._what = what
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then. Raises `EdgeTimeout` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise EdgeTimeout(f"{self._what}: not done within {self._seconds:g} s")
        return left


class Talk:
    """What a proof reads and writes; nothing is read ahead."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def read(self, size: int) -> bytes:
        """`Read` of the public API."""
        data = b""
        while len(data) < size:
            self._sock.settimeout(self._deadline.left())
            try:
                piece = self._sock.recv(size - len(data))
            except TimeoutError:
                continue  # left() says so
            except OSError as error:
                raise EdgeBroken(f"the connection was lost: {error}") from error
            if not piece:
                raise EdgeBroken("the peer left midway") if data else EdgeEnded("the peer closed the connection")
            data += piece
        return data

    def write(self, data: bytes) -> None:
        """`Write` of the public API."""
        self._sock.settimeout(self._deadline.left())
        try:
            self._sock.sendall(data)
        except TimeoutError:
            self._deadline.left()
            raise
        except OSError as error:
            raise EdgeBroken(f"the connection was lost: {error}") from error
