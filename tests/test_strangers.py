"""Whoever dials a coordinator's port, with or without the key: the coordinator turns them away and goes on."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgpack
import pytest
from commands import KEY, Commands, Served

from truecluster._wire import messages as wire
from truecluster._wire.codec import encode
from truecluster._wire.handshake import MAGIC, Purpose, prover

HELLO = wire.Hello(
    node_id="stranger",
    hostname="nowhere",
    truecluster="0.1.0",
    python_version="3.10",
    torch_version="2",
    platform="linux",
    devices=(),
    selected_device="cpu",
    pid=1,
)


@pytest.fixture(autouse=True)
def _goes_on(served: Served) -> Iterator[None]:
    yield
    assert served.complete().status_code == 200
    assert "Traceback" not in served.cluster.err
    assert "internal error" not in served.cluster.err


@contextmanager
def dialled(served: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as sock:
        yield sock


@contextmanager
def proven(served: Served, purpose: Purpose = Purpose.CONTROL, key: str = KEY) -> Iterator[socket.socket]:
    """A connection whose key is proven."""
    with dialled(served) as sock:
        prover(key.encode(), purpose)(lambda size: sock.recv(size, socket.MSG_WAITALL), sock.sendall, True)
        yield sock


def framed(data: bytes) -> bytes:
    return struct.pack(">Q", len(data)) + data


def said(sock: socket.socket) -> bytes:
    """What the coordinator says until it hangs up, which it must."""
    heard = b""
    try:
        while piece := sock.recv(4096):
            heard += piece
    except ConnectionResetError:
        pass
    return heard


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(64),
        struct.pack(">Q", 1 << 63) + bytes(64),
        framed(msgpack.packb({"type": "HELLO", "seq": 1, "payload": {}})),
        MAGIC + bytes(2) + bytes(200),
        MAGIC + struct.pack(">HB", 1, 9) + bytes(64),
        b"\x89",
        b"",
    ],
    ids=["http", "huge", "hello", "protocol-0", "purpose-9", "a-byte", "nothing"],
)
def test_who_has_not_proven_the_key(served: Served, first: bytes) -> None:
    with dialled(served) as sock:
        sock.sendall(first)
        with suppress(OSError):  # it may have hung up already
            sock.shutdown(socket.SHUT_WR)
        assert len(said(sock)) <= 43  # at most a greeting


def test_silence_is_hung_up_on(served: Served) -> None:
    with dialled(served) as before, proven(served) as control, proven(served, Purpose.BULK) as bulk:
        for sock in (before, control, bulk):
            assert said(sock) == b""


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">Q", 1 << 63),
        struct.pack(">Q", 0),
        framed(b"\xc1" * 8),
        framed(msgpack.packb([1, 2])),
        framed(b"\x91" * 5000),
        framed(msgpack.packb({"type": "FORMAT_DISK", "seq": 1, "payload": {}})),
        framed(msgpack.packb({"type": "HELLO", "seq": 1, "payload": {"node_id": 7}})),
        framed(encode(wire.Ping(number=1), 1)),
        framed(encode(HELLO, 2)),
        framed(encode(HELLO, 1))[:50],
    ],
    ids=["huge", "empty", "not-msgpack", "a-list", "deep", "unknown", "ill-typed", "no-hello", "out-of-order", "cut"],
)
def test_who_has_the_key_and_breaks_the_rules(served: Served, frame: bytes) -> None:
    with proven(served) as sock:
        sock.sendall(frame)
        sock.shutdown(socket.SHUT_WR)
        said(sock)


def test_another_version_is_told_what_differs(served: Served) -> None:
    with proven(served) as sock:
        sock.sendall(framed(encode(HELLO, 1)))
        answer = said(sock)
    assert b"architecture/qwen2 is missing there, " in answer
    assert b"install the same versions" in answer
    assert "refused node stranger" in served.cluster.err


@pytest.mark.parametrize("ticket", [bytes(32), b"short", b""], ids=["wrong", "short", "none"])
def test_a_bulk_connection_without_a_ticket(served: Served, ticket: bytes) -> None:
    with proven(served, Purpose.BULK) as sock:
        sock.sendall(ticket)
        sock.shutdown(socket.SHUT_WR)
        assert said(sock) == b""


def compat(served: Served) -> wire.Hello:
    """A HELLO that the coordinator takes."""
    import attrs

    from truecluster._registry import Registry

    registry = Registry.installed()
    offers = [(kind, offer) for kind in ("architecture", "format", "transport") for offer in registry.offers(kind)]
    return attrs.evolve(HELLO, compat={f"{kind}/{offer.spec.name}": offer.version for kind, offer in offers})


@pytest.mark.parametrize(
    "message",
    [
        wire.LoadComplete(run=9, from_store_bytes=0, received_bytes=0, resident_bytes=0, pages_capacity=0),
        wire.StageFault(run=1, reason=wire.FaultReason.INFERENCE_ERROR, message="x"),
        wire.WeightsComplete(run=1, outbound_ticket=b""),
        wire.Error(message="I can't go on"),
        HELLO,
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_node_that_speaks_out_of_turn(served: Served, message: wire.Message) -> None:
    with proven(served) as sock:
        sock.sendall(framed(encode(compat(served), 1)))
        heard = b""
        while b"HELLO_ACK" not in heard:
            piece = sock.recv(4096)
            assert piece, heard
            heard += piece
        sock.sendall(framed(encode(message, 2)))
        sock.shutdown(socket.SHUT_WR)
        said(sock)


def test_a_wrong_key_is_refused_with_the_remedy(tc: Commands, served: Served) -> None:
    ended = tc.node(served.port, "wrong", env={"TRUECLUSTER_KEY": "another"}).end()
    assert ended.code == 2
    assert "its key is another one: give the coordinator's key with --key-file or TRUECLUSTER_KEY" in ended.err


def test_a_second_node_of_the_same_name_is_refused_with_the_remedy(tc: Commands, served: Served) -> None:
    ended = tc.node(served.port, "a").end()
    assert ended.code == 2
    assert re.search(r"a node named a is here already, on \S+ \(process \d+\); give another --node-id", ended.err)


def test_a_node_that_is_not_needed_waits_and_leaves(tc: Commands, served: Served) -> None:
    import signal

    node = tc.node(served.port, "spare")
    served.cluster.wait_for("node spare joined")
    assert served.complete().status_code == 200
    assert node.send(signal.SIGINT).code == 130
