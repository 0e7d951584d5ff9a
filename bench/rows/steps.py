"""What a stage does around its blocks, which for one token is a good part of a hop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from statistics import median

import attrs
import torch
from hops import WIDTH, decoding, receive, terms
from tcplug_devices.cpu import CpuBackend
from tcplug_transport_tcp.transport import TcpTransport
from tools.figures import Figure, Settings

from truecluster._pipeline.runner import StageRunner
from truecluster._pipeline.sampling import SampleTable
from truecluster._pipeline.stage import Stage, StageShape
from truecluster._wire.steps import Opened, Page, encode
from truecluster.api import DType, Edge, Paged, Rotary, Span
from truecluster.nn import PAGE, SequenceState

STEPS = 300
WEIGHTS = 64 << 20
"""Bytes that are read before a step, as other stages' and the head's weights are between two of one's own."""
ROTARY = Rotary(dim=64, theta=1e4)


@attrs.frozen
class Driven:
    """A stage of one block that does nothing, in a thread of its own, and the other ends of its edges."""

    to: Edge
    back: Edge

    def step(self, number: int) -> float:
        """Seconds from sending the next token's hidden row to having it back."""
        hidden, header = torch.zeros(1, WIDTH), decoding(number)
        if number % PAGE == 0:
            header = attrs.evolve(header, opened=() if number else (Opened(1),), pages=(Page(1, number // PAGE),))
        data, begin = encode(header), time.perf_counter()
        self.to.send(data, [hidden])
        receive(self.back, hidden)
        return time.perf_counter() - begin


def steps(settings: Settings) -> Iterator[Figure]:
    """One token through a stage without work, two edges on loopback; medians, with caches emptied before and not."""
    weights = torch.zeros(WEIGHTS // 4)
    torch.set_num_threads(settings.threads)
    ways: dict[str, Callable[[], object]] = {"caches emptied": weights.sum, "caches warm": lambda: None}
    for name, between in ways.items():
        medians = []
        for _ in range(settings.runs):
            with driven(settings.threads) as stage:
                medians.append(_median(stage, between))
        yield Figure(name=f"step around a stage, {name}", samples=medians, unit="µs", higher=False)


def _median(stage: Driven, between: Callable[[], object]) -> float:
    found = []
    for number in range(STEPS):
        between()
        found.append(1e6 * stage.step(number))
    return median(found)


@contextmanager
def driven(threads: int) -> Iterator[Driven]:
    """Gone at the end."""
    with ExitStack() as stack:
        transport = stack.enter_context(closing(TcpTransport()))
        to, inbound = _edge(transport, stack)
        outbound, back = _edge(transport, stack)
        runner = StageRunner(_stage(threads), 1, inbound, outbound, lambda error: print(f"the stage failed: {error}"))
        stack.callback(runner.stop, 10.0)
        runner.start()
        yield Driven(to, back)


def _edge(transport: TcpTransport, stack: ExitStack) -> tuple[Edge, Edge]:
    """Producer's and consumer's end, which prove themselves to each other."""
    ticket = transport.offer(terms("step"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(transport.open, terms("step"), ticket, "consumer", None)
        producer = stack.enter_context(closing(transport.open(terms("step"), ticket, "producer", None)))
        return producer, stack.enter_context(closing(waiting.result()))


def _stage(threads: int) -> Stage:
    state = SequenceState(
        {0: Paged(dict.fromkeys(("k", "v"), (1, ROTARY.dim)))}, [ROTARY], pages=1 + STEPS // PAGE, sequences=1
    )
    shape = StageShape(
        span=Span(0, 1),
        layers=2,
        hidden=WIDTH,
        vocab=1,
        context=STEPS,
        residual=DType.FP32,
        inbound=DType.FP32,
        outbound=DType.FP32,
        max_tokens=1,
        sequences=1,
    )
    return Stage(
        shape, [lambda hidden, batch, state: hidden], state, CpuBackend().open("cpu", threads), SampleTable(1.0)
    )
