"""Options for the memory that a run may take, with their help. Imports nothing heavy."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from truecluster._plan import Room
from truecluster.api import RequestError

GB = 10**9

Context = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Tokens of prompt and answer together.  [default: the model's, less where state doesn't fit]",
    ),
]
MaxSequences = Annotated[
    int, typer.Option("--max-sequences", min=1, max=1024, metavar="N", help="Requests that are answered at once.")
]
KvMemory = Annotated[
    float | None,
    typer.Option(
        "--kv-memory-gb",
        metavar="F",
        help="Most memory for keys and values, in GB, of all nodes together.  [default: one whole context and 1,024 "
        "tokens for each other request]",
    ),
]
MemoryReserve = Annotated[
    float,
    typer.Option(
        "--memory-reserve", min=0, max=0.9, metavar="F", help="Share of each node's free memory that is left alone."
    ),
]
TargetMemory = Annotated[
    float | None,
    typer.Option(
        "--target-node-memory-gb", metavar="F", help="Memory, in GB, of nodes whose devices can't say what is free."
    ),
]


def room(
    context: int | None, sequences: int, kv_memory: float | None, reserve: float, target: float | None = None
) -> Room:
    """The options together. Raises `RequestError`."""
    if not math.isfinite(reserve):
        raise RequestError(f"--memory-reserve {reserve} is no share; give a number from 0 to 0.9")
    return Room(
        context=context,
        sequences=sequences,
        kv_bytes=in_bytes("--kv-memory-gb", kv_memory),
        reserve=reserve,
        unknown=in_bytes("--target-node-memory-gb", target),
    )


def in_bytes(option: str, gigabytes: float | None) -> int | None:
    """Raises `RequestError` for what is no amount of memory."""
    if gigabytes is not None and not 0 < gigabytes < 1e9:
        raise RequestError(f"{option} {gigabytes:g} is no amount of memory; give GB, such as 1.5")
    return None if gigabytes is None else int(gigabytes * GB)
