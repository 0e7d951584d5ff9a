"""The proof of the key, between two threads of one process."""

from __future__ import annotations

import threading

from truecluster.api import EdgeEnded, EdgeTerms, EdgeTimeout, TransportError

_PROOF_S = 10.0


class Wire:
    """One direction of the conversation. Without a ``timeout`` a reader waits until it is ended."""

    def __init__(self, timeout: float | None = None) -> None:
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


class Proof:
    """Lets two prove their keys to each other."""

    def __init__(self, dialler: EdgeTerms, listener: EdgeTerms) -> None:
        timeout = min(_PROOF_S, dialler.open_timeout)
        self._dialler = dialler
        self._listener = listener
        self._there, self._back = Wire(), Wire(timeout)  # it is the dialler who gives up, and ends the other's wait

    def run(self) -> None:
        """Raises what fails at the dialler, else what fails at the listener."""
        refused: list[TransportError] = []
        thread = threading.Thread(target=self._listen, args=(refused,), name="memory-edge-proof", daemon=True)
        thread.start()
        try:
            self._dialler.prove(self._back.read, self._there.write, True)
        finally:
            self._there.end()
            thread.join()
        if refused:
            raise refused[0]

    def end(self) -> None:
        """From any thread: nobody waits for the other any more."""
        self._there.end()
        self._back.end()

    def _listen(self, refused: list[TransportError]) -> None:
        try:
            self._listener.prove(self._there.read, self._back.write, False)
        except TransportError as error:
            refused.append(error)
        finally:
            self._back.end()
