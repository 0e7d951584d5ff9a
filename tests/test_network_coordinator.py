"""A real coordinator under strangers that are slow, many, or claim too much; and coordinators that listen on IPv6."""

from __future__ import annotations

import re
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from commands import KEY, Commands, Served
from puppets import exactly, framed, hung_up

from truecluster._wire import messages as wire
from truecluster._wire.codec import encode
from truecluster._wire.handshake import MAGIC, Purpose, prover
from truecluster._wire.limits import MAX_UNPROVEN

FLAT = 64 << 20
"""Bytes by which the coordinator may grow."""
MANY = 4 * MAX_UNPROVEN


def dial(served: Served, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 20))


def coordinator(served: Served) -> psutil.Process:
    return psutil.Process(served.cluster.process.pid)


@contextmanager
def trickling(socks: list[socket.socket]) -> Iterator[None]:
    """Every connection gets a byte now and then, of what a greeting begins with."""
    over = threading.Event()

    def trickle() -> None:
        sent = 0
        while not over.wait(0.1):
            for sock in socks:
                with suppress(OSError):
                    sock.send(MAGIC[sent % 8 : sent % 8 + 1])
            sent += 1

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_many_slow_strangers_keep_nobody_out_dist_05(tc: Commands, served: Served) -> None:
    """Their number is bounded, their memory too, and a node with the key joins among them."""
    process = coordinator(served)
    before, connections = process.memory_info().rss, len(process.net_connections("tcp"))
    with ExitStack() as stack, trickling([dial(served, stack) for _ in range(MANY)]):
        node = tc.node(served.port, "late")
        served.cluster.wait_for("node late joined")
        assert served.complete().status_code == 200
        assert len(process.net_connections("tcp")) <= connections + MAX_UNPROVEN + 10
        assert process.memory_info().rss - before < FLAT
    assert node.send(signal.SIGINT).code == 130
    assert served.cluster.err.count("refused a connection") < MANY


CLAIMS = {
    "four-bytes-of-a-length": b"\xff\xff\xff\xff",
    "length-2^32": struct.pack(">Q", 2**32 - 1),
    "length-2^64": struct.pack(">Q", 2**64 - 1),
    "length-0": struct.pack(">Q", 0),
    "one-short": framed(encode(wire.Ping(number=1), 1))[:-1],
    "array32": framed(b"\xdd\xff\xff\xff\xff"),
    "bin32": framed(b"\xc6\xff\xff\xff\xff"),
    "nested": framed(b"\x91" * 100_000),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize("proven", [False, True], ids=["stranger", "with-the-key"])
def test_what_is_claimed_is_not_allocated_dist_05(served: Served, proven: bool, claim: bytes) -> None:
    before = coordinator(served).memory_info().rss
    with ExitStack() as stack:
        socks = [dial(served, stack) for _ in range(8)]
        for sock in socks:
            if proven:
                prove = prover(KEY.encode(), Purpose.CONTROL)
                prove(lambda size, sock=sock: exactly(sock, size), sock.sendall, True)  # type: ignore[misc]
            with suppress(OSError):  # it may have hung up already
                sock.sendall(claim)
                sock.shutdown(socket.SHUT_WR)
        assert served.complete().status_code == 200
        assert all(hung_up(sock) for sock in socks)
    assert coordinator(served).memory_info().rss - before < FLAT
    assert "Traceback" not in served.cluster.err


def needs_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")


@pytest.mark.parametrize(
    ("listen", "printed", "joins"),
    [
        ("::1", "::1", "[::1]:{}"),
        ("[::1]", "::1", "::1 --cluster-port {}"),
        ("::", r"\S+", "127.0.0.1:{}"),
        ("[::]", r"\S+", "[::1]:{}"),
        ("localhost", r"127\.0\.0\.1|::1", "localhost:{}"),
        ("127.0.0.1", r"127\.0\.0\.1", "localhost:{}"),
    ],
    ids=lambda value: str(value).replace("{}", "port"),
)
def test_clusters_over_ipv6_and_names_dist_13(tc: Commands, tiny: Path, listen: str, printed: str, joins: str) -> None:
    """The line that is printed can be typed, and weights and steps travel."""
    needs_ipv6()
    cluster = tc.start(
        "cluster", "--model", tiny, "--api-host", "[::1]", "--api-port", 0, "--node-host", listen, "--node-port", 0
    )
    api = cluster.wait_for(r"API on http://\[::1\]:(\d+)/v1")
    port = cluster.wait_for(rf"tc node --cluster-host (?:{printed}) --cluster-port (\d+)$")
    where = joins.format(port[1]).split()
    node = tc.start("node", "--cluster-host", *where, "--node-id", "a", "--device", "cpu", "--threads", 1, work_dir="a")
    cluster.wait_for("^a: blocks 0-3")
    assert not re.search("edge .* → ", cluster.err)
    import httpx

    body = {"model": "tiny", "prompt": "Hello", "max_tokens": 4, "temperature": 0}
    assert httpx.post(f"http://[::1]:{api[1]}/v1/completions", json=body, timeout=60).status_code == 200
    node.wait_for(r"joined (\[::1\]|127\.0\.0\.1|localhost):\d+ as a")


def test_addresses_that_cannot_be_are_refused_at_once_dist_13(
    tc_here: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUECLUSTER_KEY", KEY)
    for arguments, words in (
        (["node", "--cluster-host", ":9000"], "--cluster-host ':9000' names no host"),
        (["node", "--cluster-host", "host:70000"], "ports go from 1 to 65535"),
        (["node", "--cluster-host", "h:1", "--cluster-port", 2], "name two ports; give one"),
        (["node", "--edge-host", "none", "--edge-port", 7002], "leave --edge-port and --advertise-host out"),
        (["node", "--advertise-host", "0.0.0.0"], "--advertise-host '0.0.0.0' is no address to dial"),
        (["cluster", "--model", "x", "--node-host", "[::1]:9"], "the port goes to --node-port"),
    ):
        ended = tc_here(*arguments)
        assert ended.code == 2  # type: ignore[attr-defined]
        assert words in ended.err  # type: ignore[attr-defined]
