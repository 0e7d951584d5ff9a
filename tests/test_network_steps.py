"""Steps that break the rules, sent over real edges to real workers: the run faults, and nothing else does."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import Cluster, Layout, cluster, forced

from truecluster._pipeline.run import Run
from truecluster.api import TrueClusterError

PROMPT, ANSWER = list(b"Hello"), list(b"abcd")
HIDDEN = 64
"""Width of the tiny model."""
FLAT = 64 << 20
"""Bytes by which processes may grow while they refuse what would have them allocate far more."""
STEP = struct.Struct("<BBBxIQQIIIII5i")
"""A step header with one row: kind, dtype, flags, width, run, step, count, four table lengths, the row."""


@pytest.fixture(scope="module")
def made(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tiny, tmp_path_factory.mktemp("steps"), Layout(nodes=2, transport="tcp"), restarts=True) as made:
        yield made


def works(made: Cluster) -> list[list[int]]:
    with made.run() as run:
        return forced(run, [(PROMPT, ANSWER)])


def workers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "--node-id" in p.cmdline()]


def resident() -> int:
    """Of the workers and of the coordinator, in bytes."""
    return sum(p.memory_info().rss for p in [*workers(), psutil.Process()])


def socket_of(edge: Any) -> socket.socket:
    found = edge._sock
    assert isinstance(found, socket.socket)
    return found


def to_first_worker(made: Cluster, run: Run) -> socket.socket:
    """The connection under the edge that leaves the coordinator's embedding."""
    provision = made.coordinator._runs.live
    assert provision is not None
    return socket_of(provision._own.runners[0]._outbound)


def message(number: int, payload: int | None = None, extra: bytes = b"", **changes: int) -> bytes:
    """A decode step of one hidden row for a sequence that isn't open, and its payload, with ``changes``."""
    fields = {"kind": 2, "dtype": 0, "flags": 0, "width": HIDDEN, "run": number, "step": 0, "count": 1}
    fields |= {"rows": 1, "opened": 0, "pages": 0, "released": 0}
    fields |= {"sequence": 1, "position": 0, "n_tokens": 1, "n_logits": 1, "sample": 0}
    fields |= changes
    header = STEP.pack(*fields.values()) + extra
    size = 4 * HIDDEN if payload is None else payload
    return struct.pack(">IQ", len(header), size) + header + bytes(min(size, 1 << 16))


OPENED = {"opened": 1, "pages": 1}


def opening(position: int = 0, page: int = 0) -> bytes:
    """Tables that open sequence 1 and give it a page."""
    return struct.pack("<2i", 1, 0) + struct.pack("<2i", 1, page)


HOSTILE = {
    "header-of-4-GiB": (struct.pack(">IQ", 2**32 - 1, 0), "a header of 4294967295 bytes"),
    "payload-of-16-EiB": ({"payload": 2**64 - 1}, "a payload of 18446744073709551615 bytes where 256 are due"),
    "payload-one-short": ({"payload": 255}, "a payload of 255 bytes where 256 are due"),
    "minus-one-rows": ({"count": 2**32 - 1}, "claims 4294967295 payload rows"),
    "rows-of-the-table": ({"rows": 2**32 - 1}, "claims 4294967295 rows"),
    "more-rows-than-said": ({"count": 2}, "2 payload rows whose table says 1"),
    "width-one-short": ({"width": HIDDEN - 1}, f"takes RUN_PREFILL of width {HIDDEN} in fp32"),
    "width-of-2^32": ({"width": 2**32 - 1}, "claims 4294967295 width"),
    "unknown-dtype": ({"dtype": 99}, "dtype 99"),
    "another-dtype": ({"dtype": 1}, f"takes RUN_PREFILL of width {HIDDEN} in fp32"),
    "token-ids": ({"width": 0, "dtype": 3}, f"takes RUN_PREFILL of width {HIDDEN} in fp32"),
    "unknown-kind": ({"kind": 77}, "unknown kind 77"),
    "an-answer": ({"kind": 4, "width": 0, "dtype": 3}, "a TOKEN of width 0"),
    "another-run": ({"run": 2**40}, "of run 1099511627776 came to a stage of run"),
    "step-out-of-order": ({"step": 5}, "step 5 came, step 0 is next"),
    "unknown-sequence": ({"sequence": 7}, "7"),
    "position-above-the-cache": ({**OPENED, "position": 9, "extra": opening()}, "9"),
    "position-above-the-context": ({**OPENED, "position": 2**30, "extra": opening()}, "reaches position"),
    "negative-position": ({"position": -1}, "out of range: Row(sequence=1, position=-1"),
    "page-that-is-not-there": ({**OPENED, "extra": opening(page=2**30)}, "1073741824"),
    "no-page": ({"opened": 1, "extra": struct.pack("<2i", 1, 0)}, "page"),
}


@pytest.mark.parametrize(("sent", "named"), HOSTILE.values(), ids=HOSTILE)
def test_a_step_that_breaks_the_rules_dist_07(made: Cluster, sent: Any, named: str) -> None:
    """Refused by the worker with a reason, nothing allocated by what it claims; the same workers take the next run."""
    answer = works(made)
    before, there = resident(), workers()
    with made.run() as run:
        to_first_worker(made, run).sendall(sent if isinstance(sent, bytes) else message(run.plan.run, **sent))
        failure = faulted(run)
        assert "node worker-1: " in str(failure)
        assert named in str(failure)
    assert works(made) == answer
    assert workers() == there
    assert resident() - before < FLAT


def faulted(run: Run) -> TrueClusterError:
    """What the run ends for, which must be soon. The node's own word replaces the broken edge that is noticed first."""
    end = time.monotonic() + 20
    while not (run.failure is not None and "node" in str(run.failure)):
        assert time.monotonic() < end, f"no fault of a node came, only {run.failure}"
        time.sleep(0.01)
    return run.failure


def edge_port(worker: psutil.Process) -> int:
    """Where a worker that hosts a stage listens."""
    return int(next(c.laddr.port for c in worker.net_connections("tcp") if c.status == psutil.CONN_LISTEN))


def test_strangers_at_a_workers_edges_disturb_no_run_dist_05(made: Cluster) -> None:
    """Garbage, silence and more of them than there is room for, while a run goes on."""
    answer, before = works(made), resident()
    garbage = [b"\xff\xff\xff\xff", b"", b"GET / HTTP/1.1\r\n\r\n" * 10, struct.pack(">IQ", 2**32 - 1, 2**64 - 1)]
    with made.run() as run:
        ports = [edge_port(worker) for worker in workers()]
        strangers = [socket.create_connection(("127.0.0.1", port), 20) for port in ports for _ in range(30)]
        for number, stranger in enumerate(strangers):
            try:
                stranger.sendall(garbage[number % len(garbage)])
            except OSError:
                continue  # it had to make room
        assert forced(run, [(PROMPT, ANSWER)]) == answer
        assert run.failure is None
        for stranger in strangers:
            stranger.close()
    assert works(made) == answer
    assert resident() - before < FLAT


def suspend(process: psutil.Process) -> None:
    """Stop it, and see that all of its threads stand still."""
    process.suspend()
    end = time.monotonic() + 10
    while process.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < end
        time.sleep(0.01)


def flooded(sock: socket.socket, piece: bytes) -> int:
    """How many bytes can be sent before it takes a second to send more."""
    sock.settimeout(1.0)
    sent = 0
    try:
        while sent < 4 * FLAT:
            sent += sock.send(piece)
    except TimeoutError:
        pass
    return sent


def test_a_worker_that_reads_slowly_stops_who_sends_to_it_dist_09(made: Cluster) -> None:
    """The coordinator can't get rid of more than fits on the way, and its memory stays as it is."""
    with made.run() as run:
        worker = next(p for p in workers() if "worker-1" in p.cmdline())
        sock = to_first_worker(made, run)
        suspend(worker)
        try:
            before = resident()
            assert flooded(sock, message(run.plan.run, payload=1 << 16)) < FLAT
            assert resident() - before < FLAT
        finally:
            worker.resume()
        faulted(run)
    assert works(made)
