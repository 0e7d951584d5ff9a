"""The one listening socket of a process's edges, and the threads that let diallers in."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from .sockets import local_address

_MAX_UNPROVEN = 16
_RETRY_S = 0.1


class Doorway:
    """Accepts connections and gives each to ``admit`` in a thread of its own, at most 16 at a time.

    ``admit`` proves the connection within a deadline and either keeps it, returning true, or leaves it to be closed.
    The one that has been at it longest makes room for a newcomer. The socket is closed by `close`.
    """

    def __init__(self, sock: socket.socket, admit: Callable[[socket.socket], bool]) -> None:
        sock.setblocking(False)
        self.address = local_address(sock)
        self._sock = sock
        self._admit = admit
        self._wake, self._waker = socket.socketpair()
        self._slots = threading.Semaphore(_MAX_UNPROVEN)
        self._lock = threading.Lock()
        self._unproven: list[socket.socket] = []  # the oldest first
        self._provers: list[threading.Thread] = []  # outlives `_unproven` by the last steps of each thread
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tcp-edge-doorway", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port, and end the connections that are not proven yet. Returns when its threads are gone."""
        self._closing.set()
        with suppress(OSError):  # it has been woken by a dialler, and is gone
            self._waker.send(b"x")
        with self._lock:
            for connection in self._unproven:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()  # from here on nobody is accepted any more
        for prover in self._provers:
            prover.join()
        self._waker.close()

    def _run(self) -> None:
        with self._sock, self._wake, selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._closing.is_set():
                selector.select()
                self._accept()

    def _accept(self) -> None:
        if not self._slots.acquire(blocking=False):
            self._hurry_oldest()
            self._slots.acquire()
        try:
            connection, _ = self._sock.accept()
        except OSError as error:
            self._slots.release()
            if not isinstance(error, BlockingIOError):  # no descriptor is free: wait until something is closed
                self._closing.wait(_RETRY_S)
            return
        with self._lock:
            self._unproven.append(connection)
            if self._closing.is_set():
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        prover = threading.Thread(target=self._prove, args=(connection,), name="tcp-edge-proof", daemon=True)
        self._provers = [other for other in self._provers if other.is_alive()] + [prover]
        prover.start()

    def _hurry_oldest(self) -> None:
        with self._lock:
            for connection in self._unproven[:1]:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _prove(self, connection: socket.socket) -> None:
        kept = False
        try:
            kept = self._admit(connection)
        finally:
            with self._lock:
                self._unproven.remove(connection)
            if not kept:
                connection.close()
            self._slots.release()
