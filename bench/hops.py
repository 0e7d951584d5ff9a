"""What a step costs besides its compute, and what stages on one machine do to each other's threads.

    python bench/hops.py --json FILE [--steps N] [--only hops|policies]

Two processes host a stage each on direct TCP edges, coordinator → A → B → coordinator. With identity stages, hop
latency is (step time - the stages' own compute) / 3, while a thread of the coordinator works 0.2 ms of every 2 ms as
an event loop would. With a load of matrix-vector products, the table compares policies for the stages' threads: one
group in flight (the stages take turns), and two (they overlap).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from statistics import median, quantiles
from typing import Any

import attrs
import torch
from tcplug_transport_tcp.transport import TcpTransport
from torch.nn import functional

from truecluster._wire.handshake import prover
from truecluster._wire.steps import Kind, Row, StepHeader, decode, encode
from truecluster.api import DType, Edge, EdgeEnded, EdgeTerms

WIDTH = 896
HOPS = 3
KEY = b"bench"
TARGET_US = {"p50": 150.0, "p99": 500.0}
LOAD = (4864, 4)
"""Rows of a matrix ``[rows, WIDTH]`` in fp32, and how many a stage multiplies per step: 70 MB a stage."""
CORES = os.cpu_count() or 1


@attrs.frozen
class Policy:
    """Threads of each stage, and the OpenMP settings of its environment."""

    name: str
    threads: int
    env: dict[str, str] = attrs.field(factory=dict)


POLICIES = (
    Policy("all cores each", CORES),
    Policy("all cores each, spinning", CORES, {"OMP_WAIT_POLICY": "active"}),
    Policy("all cores each, passive", CORES, {"OMP_WAIT_POLICY": "passive"}),
    Policy("all cores each, spin count 1000", CORES, {"GOMP_SPINCOUNT": "1000"}),
    Policy("all cores each, spin count 100000", CORES, {"GOMP_SPINCOUNT": "100000"}),
    Policy("divided", max(1, CORES // 2)),
    Policy("divided, passive", max(1, CORES // 2), {"OMP_WAIT_POLICY": "passive"}),
)


def terms(edge: str) -> EdgeTerms:
    """Loopback, one key."""
    return EdgeTerms(edge=edge, host="127.0.0.1", prove=prover(KEY))


def receive(edge: Edge, hidden: torch.Tensor) -> StepHeader:
    """One step into ``hidden [1, WIDTH]``."""
    found: list[StepHeader] = []

    def place(data: bytes) -> list[torch.Tensor]:
        found.append(decode(data))
        return [hidden]

    edge.recv(place)
    return found[0]


def serve_stage(matrices: int, threads: int) -> None:
    """A stage's process: tickets on standard input and output, then steps until the inbound edge ends."""
    torch.set_num_threads(threads)
    weights = [torch.randn(LOAD[0], WIDTH) for _ in range(matrices)]
    compute: list[float] = []
    with closing(TcpTransport()) as transport:
        ticket = transport.offer(terms("in"))
        print(ticket.hex(), flush=True)
        outbound = transport.open(terms("out"), bytes.fromhex(input()), "producer", None)
        inbound = transport.open(terms("in"), ticket, "consumer", None)
        with closing(inbound), closing(outbound), torch.inference_mode():
            run_steps(inbound, outbound, weights, compute)
    print(json.dumps(compute), flush=True)


def run_steps(inbound: Edge, outbound: Edge, weights: list[torch.Tensor], compute: list[float]) -> None:
    """Receive, compute, send; one duration per step goes to ``compute``."""
    hidden = torch.zeros(1, WIDTH)
    while True:
        try:
            header = receive(inbound, hidden)
        except EdgeEnded:
            return
        start = time.perf_counter()
        for weight in weights:
            hidden = block(hidden, weight)
        compute.append(time.perf_counter() - start)
        outbound.send(encode(header), [hidden])


def block(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """One large product between small operations, as in a decoder block."""
    up = functional.linear(functional.rms_norm(hidden, (WIDTH,)), weight)
    return (hidden + functional.silu(up)[:, :WIDTH]).contiguous()


@attrs.frozen
class Ring:
    """The coordinator's two edges and the two stages."""

    outbound: Edge
    inbound: Edge
    stages: tuple[subprocess.Popen[str], ...]

    def finish(self) -> list[list[float]]:
        """End the run; what each stage measured."""
        self.outbound.close()
        return [json.loads(_line(stage)) for stage in self.stages]


@contextmanager
def ring(matrices: int, policy: Policy) -> Iterator[Ring]:
    """Two fresh processes, connected; gone at the end."""
    command = [sys.executable, __file__, "--stage", str(matrices), "--threads", str(policy.threads)]
    with ExitStack() as stack:
        transport = stack.enter_context(closing(TcpTransport()))
        stages = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **policy.env}
            )
            for _ in range(2)
        ]
        for stage in stages:
            stack.callback(_end, stage)
        back = transport.offer(terms("back"))
        first, second = (_line(stage) for stage in stages)
        for stage, ticket in zip(stages, (second, back.hex()), strict=True):
            _say(stage, ticket)
        outbound = stack.enter_context(closing(transport.open(terms("out"), bytes.fromhex(first), "producer", None)))
        inbound = stack.enter_context(closing(transport.open(terms("back"), back, "consumer", None)))
        yield Ring(outbound, inbound, tuple(stages))


def drive(edges: Ring, steps: int, depth: int) -> list[float]:
    """Keep ``depth`` steps in flight; seconds from each send to its answer."""
    rows = [torch.zeros(1, WIDTH) for _ in range(depth)]
    began: list[float] = []
    took: list[float] = []
    for step in range(steps + depth):
        if step >= depth:
            receive(edges.inbound, rows[step % depth])
            took.append(time.perf_counter() - began[step - depth])
        if step < steps:
            began.append(time.perf_counter())
            edges.outbound.send(encode(decoding(step)), [rows[step % depth]])
    return took


@contextmanager
def loop_like(work_s: float = 0.0002, every_s: float = 0.002) -> Iterator[None]:
    """A thread of this process that holds the interpreter as an event loop does."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(every_s - work_s):
            end = time.perf_counter() + work_s
            while time.perf_counter() < end:
                pass

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def measure_hops(steps: int) -> dict[str, Any]:
    """Microseconds a hop, of identity stages with one step in flight."""
    with ring(0, Policy("one thread", 1)) as edges, loop_like():
        took = drive(edges, steps, 1)
        compute = edges.finish()
    hops = [(step - a - b) / HOPS * 1e6 for step, a, b in zip(took, *compute, strict=True)][steps // 10 :]
    p50, p99 = median(hops), quantiles(hops, n=100)[98]
    return {"steps": len(hops), "p50_us": p50, "p99_us": p99, "target_us": TARGET_US, "reached": _reached(p50, p99)}


def measure_policy(policy: Policy, steps: int) -> dict[str, Any]:
    """Milliseconds a step and steps a second, one and two groups in flight."""
    result: dict[str, Any] = {"policy": policy.name, "threads": policy.threads, "env": policy.env}
    for name, depth in (("turns", 1), ("overlap", 2)):
        with ring(LOAD[1], policy) as edges:
            drive(edges, steps // 5, depth)
            start = time.perf_counter()
            drive(edges, steps, depth)
            seconds = time.perf_counter() - start
            compute = edges.finish()
        result[name] = {
            "steps_per_s": steps / seconds,
            "compute_ms": [median(stage[-steps:]) * 1e3 for stage in compute],
        }
    return result


def decoding(step: int) -> StepHeader:
    """The next token of a sequence that began with the run."""
    row = Row(1, step, 1, 1)
    return StepHeader(kind=Kind.RUN_DECODE, run=1, step=step, count=1, width=WIDTH, dtype=DType.FP32, rows=(row,))


def _reached(p50: float, p99: float) -> bool:
    return p50 <= TARGET_US["p50"] and p99 <= TARGET_US["p99"]


def _line(stage: subprocess.Popen[str]) -> str:
    assert stage.stdout is not None
    line = stage.stdout.readline().strip()
    if not line:
        raise SystemExit(f"a stage ended with {stage.wait()}")
    return line


def _say(stage: subprocess.Popen[str], line: str) -> None:
    assert stage.stdin is not None
    stage.stdin.write(line + "\n")
    stage.stdin.flush()


def _end(stage: subprocess.Popen[str]) -> None:
    stage.kill()
    stage.communicate()


def _print_hops(hops: dict[str, Any]) -> None:
    print(f"hop of one row of {WIDTH} fp32, a loop working 10 % beside it: ", end="")
    print(f"p50 {hops['p50_us']:.0f} µs (target 150), p99 {hops['p99_us']:.0f} µs (target 500)")


def _print_policy(result: dict[str, Any]) -> None:
    cells = [f"{result['policy']:35}{result['threads']:4}"]
    for name in ("turns", "overlap"):
        a, b = result[name]["compute_ms"]
        cells.append(f"{result[name]['steps_per_s']:9.1f} steps/s  compute {a:5.1f} + {b:5.1f} ms")
    print("".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--steps", type=int, default=3000, help="identity steps; a loaded stage does a fiftieth")
    parser.add_argument("--only", choices=["hops", "policies"])
    parser.add_argument("--stage", type=int, metavar="MATRICES", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage is not None:
        serve_stage(given.stage, given.threads)
        return
    torch.set_num_threads(1)
    results: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "cores": CORES}
    if given.only != "policies":
        results["hops"] = measure_hops(given.steps)
        _print_hops(results["hops"])
    if given.only != "hops":
        print(f"{'policy':35}{'thr.':>4}{'stages take turns':>24}{'stages overlap':>38}")
        results["policies"] = []
        for policy in POLICIES:
            results["policies"].append(measure_policy(policy, max(20, given.steps // 50)))
            _print_policy(results["policies"][-1])
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
