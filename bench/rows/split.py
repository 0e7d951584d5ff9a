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
TOKENS = 257
PREFILL = 128
STEPS = 3000
TARGET = 0.9


def split_fp16(settings: Settings) -> Iterator[Figure]:
    """SmolLM2, fp16: 256 greedy tokens over HTTP, both servers up, asked in turn; ratio of the best of each."""
    yield from _compare("fp16", settings)


def split_int4(settings: Settings) -> Iterator[Figure]:
    """SmolLM2, int4: 256 greedy tokens over HTTP, both servers up, asked in turn; ratio of the best of each."""
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
    """Rates of both sides, A B A B …, after a warm-up."""
    decode: list[list[float]] = [[], []]
    prefill: list[list[float]] = [[], []]
    for round in range(runs + 1):
        for side, server in enumerate((one, two)):
            rates = server.decode_rate(PROMPT, TOKENS), PREFILL / server.timed(_prompt(round), 1)[0]
            if round:
                decode[side].append(rates[0])
                prefill[side].append(rates[1])
    return decode, prefill


def _prompt(round: int) -> list[int]:
    """A prompt that no earlier round had."""
    return [1000 + (round * PREFILL + i) % 20000 for i in range(PREFILL)]


def _ratio(name: str, rates: list[list[float]], target: float | None) -> Figure:
    pairs = median(b / a for a, b in zip(*rates, strict=True))
    ratio = max(rates[1]) / max(rates[0])
    how = f"ratio of the best of each; the median of pairs is {pairs:.2f}"
    return Figure(name=name, samples=[ratio], unit="", target=target, how=how)
