"""What runs in a process of its own so that it can be killed: the far end of a stream or an edge."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from truecluster._wire.handshake import prover
from truecluster.api import EdgeTerms, TransportError


def produce(transport: Any, edge: str, host: str, key: str, tickets: list[str], size: int) -> None:
    """Open an edge after the other as its producer, and send one message of ``size`` bytes on each."""
    import torch

    terms = EdgeTerms(edge=edge, host=host, prove=prover(bytes.fromhex(key)))
    for ticket in tickets:
        with suppress(TransportError):  # its consumer gave it up
            opened = transport.open(terms, bytes.fromhex(ticket), "producer", None)
            opened.send(b"header", [torch.zeros(size, dtype=torch.uint8)])
    time.sleep(60)


def connect(transport: Any, host: str, port: int) -> None:
    """Dial, send one byte, and read nothing."""
    import anyio

    async def main() -> None:
        stream = await transport.connect(host, port)
        await stream.send(b"x")
        await anyio.sleep(60)

    anyio.run(main)


def main(target: str, role: str, **told: Any) -> None:
    """Play ``role`` with the transport that ``target`` names, until somebody kills this."""
    module, _, name = target.partition(":")
    roles: dict[str, Callable[..., None]] = {"produce": produce, "connect": connect}
    roles[role](getattr(importlib.import_module(module), name)(), **told)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
