"""Relays between nodes that can't dial each other: one thread each."""

from __future__ import annotations

import logging
import threading

from truecluster.api import Relay, TransportError

LOG = logging.getLogger(__name__)
JOIN_S = 10.0


class Relays:
    """Those of one run."""

    def __init__(self) -> None:
        self._running: list[tuple[Relay, threading.Thread]] = []

    def start(self, edge: str, relay: Relay) -> None:
        """Relay what goes over ``edge``, until it ends or `close`."""
        thread = threading.Thread(target=_run, args=(relay,), name=f"relay {edge}", daemon=True)
        self._running.append((relay, thread))
        thread.start()

    def close(self) -> None:
        """End all. Returns when their threads are gone."""
        for relay, _ in self._running:
            relay.close()
        for _, thread in self._running:
            thread.join(JOIN_S)


def _run(relay: Relay) -> None:
    try:
        relay.run()
    except TransportError as error:
        LOG.debug("a relay ended: %s", error)  # both of its ends say more
