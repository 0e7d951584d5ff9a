"""What a consumer waits for."""

from __future__ import annotations

import socket
import threading

import attrs

from truecluster.api import EdgeTerms


@attrs.define(eq=False)
class Offer:
    """Room for the one producer that an edge has."""

    terms: EdgeTerms
    _changed: threading.Condition = attrs.field(factory=threading.Condition)
    _sock: socket.socket | None = None
    _used: bool = False
    _withdrawn: bool = False

    def use(self) -> bool:
        """Whether the caller is the first to use the offer's ticket."""
        with self._changed:
            first = not (self._used or self._withdrawn)
            self._used = True
            return first

    def give(self, sock: socket.socket) -> bool:
        """Hand over the producer's connection; false where nobody wants it any more."""
        with self._changed:
            if self._withdrawn:
                return False
            self._sock = sock
            self._changed.notify_all()
            return True

    def wait(self, timeout: float) -> socket.socket | None:
        """The producer's connection; ``None`` after ``timeout`` seconds or when withdrawn, and then for good."""
        with self._changed:
            self._changed.wait_for(lambda: self._sock is not None or self._withdrawn, timeout)
            sock, self._sock = self._sock, None
            self._withdrawn = True
            self._changed.notify_all()
            return sock

    def withdraw(self) -> None:
        """Nobody may come any more; who came already and wasn't fetched is turned away."""
        with self._changed:
            self._withdrawn = True
            if self._sock is not None:
                self._sock.close()
                self._sock = None
            self._changed.notify_all()
