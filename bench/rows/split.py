"""What a split costs: two worker processes on loopback against one stage in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import hops as identity
from tools.figures import Figure, Settings
from tools.models import smollm2
from tools.server import Server

PROMPT = "Once upon a time"
TOKENS = 65
PAIRS = 5
"""Of both sides in turn, for each run that is asked for: on a machine whose speed comes and goes, many short ones tell
more than a few long ones, and their median more than the best of each side."""
PREFILL = 128
STEPS = 3000
TARGET = 0.9


def split_fp16(settings: Settings) -> Iterator[Figure]:
    """SmolLM2, fp16: 64 greedy tokens over HTTP, both servers up, asked in turn; a ratio is the median of pairs."""
    yield from _compare("fp16", settings)


def split_int4(settings: Settings) -> Iterator[Figure]:
    """SmolLM2, int4: 64 greedy tokens over HTTP, both servers up, asked in turn; a ratio is the median of pairs."""
    yield from _compare("int4", settings)


def hops(settings: Settings) -> Iterator[Figure]:
    """Identity blocks in two processes: (step - compute) / 3 hops, a loop working 10 % beside it (bench/hops.py)."""
    found = identity.measure_hops(STEPS)
    for name, target in identity.TARGET_US.items():
        yield Figure(name=f"hop, {name}", samples=[found[f"{name}_us"]], unit="µs", higher=False, target=target)


def arguments(quant: str, transport: str, nodes: int, settings: Settings) -> list[str]:
    """Of `tc run`; packed weights stay in the settings' folder."""
    where = ["--transport", transport, "--nodes", str(nodes), "--threads", str(settings.threads)]
    return ["--model", smollm2(), "--quant", quant, "--work-dir", str(settings.work), *where]


def _compare(quant: str, settings: Settings) -> Iterator[Figure]:
    with ExitStack() as stack:
        one = stack.enter_context(Server(arguments(quant, "memory", 1, settings)))
        two = stack.enter_context(Server(arguments(quant, "tcp", 2, settings)))
        decode, prefill = _in_turn(one, two, settings.runs)
    for name, rates in (("decode", decode), ("prefill 128", prefill)):
        yield Figure(name=f"{name} {quant}, one stage", samples=rates[0], unit="tok/s")
        yield Figure(name=f"{name} {quant}, two nodes", samples=rates[1], unit="tok/s")
        yield _ratio(f"{name} {quant}, two / one", rates, TARGET if name == "decode" else None)


def _in_turn(one: Server, two: Server, runs: int) -> tuple[list[list[float]], list[list[float]]]:
    """Rates of both sides, A B A B …, after a round that warms."""
    decode: list[list[float]] = [[], []]
    prefill: list[list[float]] = [[], []]
    for round in range(runs + 1):
        for _ in range(PAIRS):
            _pair(decode, [server.decode_rate(PROMPT, TOKENS) for server in (one, two)])
        _pair(prefill, [PREFILL / server.timed(_prompt(round), 1)[0] for server in (one, two)])
        if round == 0:
            decode, prefill = [[], []], [[], []]
    return decode, prefill


def _pair(rates: list[list[float]], found: list[float]) -> None:
    for side, rate in zip(rates, found, strict=True):
        side.append(rate)


def _prompt(round: int) -> list[int]:
    """A prompt that no earlier round had."""
    return [1000 + (round * PREFILL + i) % 20000 for i in range(PREFILL)]


def _ratio(name: str, rates: list[list[float]], target: float | None) -> Figure:
    pairs = [b / a for a, b in zip(*rates, strict=True)]
    how = f"median of {len(pairs)} pairs; the ratio of the best of each is {max(rates[1]) / max(rates[0]):.2f}"
    return Figure(name=name, samples=[median(pairs)], unit="", target=target, how=how)
