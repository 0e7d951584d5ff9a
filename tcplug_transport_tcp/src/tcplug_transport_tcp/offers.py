"""What the listening end of an edge waits for."""

from __future__ import annotations

import socket
import threading

import attrs

from truecluster.api import EdgeClosed, EdgeTerms, EdgeTimeout


@attrs.define(eq=False)
class Offer:
    """Room for the one peer that an edge has."""

    terms: EdgeTerms
    _changed: threading.Condition = attrs.field(factory=threading.Condition)
    _sock: socket.socket | None = None
    _used: bool = False
    _over: bool = False

    def use(self) -> bool:
        """Whether the caller is the first to use the offer's ticket."""
        with self._changed:
            first = not (self._used or self._over)
            self._used = True
            return first

    def give(self, sock: socket.socket) -> bool:
        """Hand over the peer's connection; false where nobody wants it any more."""
        with self._changed:
            if self._over:
                return False
            self._sock = sock
            self._changed.notify_all()
            return True

    def wait(self, timeout: float) -> socket.socket:
        """The peer's connection, once. Raises `EdgeTimeout` after ``timeout`` seconds, `EdgeClosed` when withdrawn."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._sock is not None or self._over, timeout)
            sock, self._sock = self._sock, None
            self._over = True
            if sock is not None:
                return sock
        if came:
            raise EdgeClosed(f"edge {self.terms.edge}: this side took its offer back")
        raise EdgeTimeout(f"edge {self.terms.edge}: the other end did not come within {timeout:g} s")

    def withdraw(self) -> None:
        """Nobody may come any more; who came already and wasn't fetched is turned away."""
        with self._changed:
            self._over = True
            if self._sock is not None:
                self._sock.close()
                self._sock = None
            self._changed.notify_all()
