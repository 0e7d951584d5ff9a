"""What the settings of OpenMP do to two nodes that take turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import attrs
from tools.figures import Figure, Settings
from tools.server import Server

from .split import PROMPT, TOKENS, arguments

QUANT = "int4"
SPIN = "GOMP_SPINCOUNT"
DEFAULT: dict[str, str] = {}
POLICIES: dict[str, tuple[int | None, dict[str, str]]] = {
    "default": (None, DEFAULT),
    "300,000 spins": (None, {SPIN: "300000"}),
    "10,000 spins": (None, {SPIN: "10000"}),
    "no spins": (None, {SPIN: "0"}),
    "one thread": (1, DEFAULT),
}
"""Threads of every process (as many as the settings say, or fewer), and its environment. 300,000 is libgomp's own."""


def policies(settings: Settings) -> Iterator[Figure]:
    """SmolLM2, int4, decode: all servers up, asked in turn; every policy against one stage with the defaults."""
    with ExitStack() as stack:
        one = stack.enter_context(Server(arguments(QUANT, "memory", 1, settings)))
        twos = {name: stack.enter_context(_two(name, settings)) for name in POLICIES}
        rounds = [_round([one, *twos.values()]) for _ in range(settings.runs + 1)][1:]
    single, *doubles = zip(*rounds, strict=True)
    for name, rates in zip(twos, doubles, strict=True):
        pairs = median(b / a for a, b in zip(single, rates, strict=True))
        how = f"best {max(rates):.1f} / {max(single):.1f} tok/s; the median of pairs is {pairs:.2f}"
        yield Figure(name=f"two / one, {name}", samples=[max(rates) / max(single)], unit="", how=how)


def _two(name: str, settings: Settings) -> Server:
    threads, environment = POLICIES[name]
    return Server(arguments(QUANT, "tcp", 2, attrs.evolve(settings, threads=threads or settings.threads)), environment)


def _round(servers: list[Server]) -> list[float]:
    return [server.decode_rate(PROMPT, TOKENS) for server in servers]
