"""The proof of the key, between two threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable

from truecluster.api import EdgeEnded, EdgeTerms, EdgeTimeout, TransportError

_PROOF_S = 10.0


class Wire:
    """One direction of the conversation."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._changed = threading.Condition()
        self._data = b""
        self._ended = False

    def write(self, data: bytes) -> None:
        """`Write` of the public API."""
        with self._changed:
            self._data += data
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def read(self, size: int) -> bytes:
        """`Read` of the public API."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._data) >= size or self._ended, self._timeout):
                raise EdgeTimeout(f"the peer did not prove its key within {self._timeout:g} s")
            if len(self._data) < size:
                raise EdgeEnded("the peer closed the connection")
            data, self._data = self._data[:size], self._data[size:]
            return data


def prove_both(dialler: EdgeTerms, listener: EdgeTerms) -> None:
    """Let the two prove their keys to each other. Raises what fails at either of them."""
    timeout = min(_PROOF_S, dialler.open_timeout)
    there, back = Wire(timeout), Wire(timeout)
    failures: list[TransportError] = []

    def listen() -> None:
        _conversation(lambda: listener.prove(there.read, back.write, False), back, failures)

    thread = threading.Thread(target=listen, name="memory-edge-proof", daemon=True)
    thread.start()
    _conversation(lambda: dialler.prove(back.read, there.write, True), there, failures)
    thread.join()
    if failures:
        raise failures[-1]


def _conversation(prove: Callable[[], None], outgoing: Wire, failures: list[TransportError]) -> None:
    try:
        prove()
    except TransportError as error:
        failures.append(error)
    finally:
        outgoing.end()
