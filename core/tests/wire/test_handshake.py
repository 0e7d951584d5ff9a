"""The proof of the key, over real sockets and step by step."""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading

import anyio
import pytest
from anyio.abc import SocketAttribute
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._wire.handshake import Purpose, conversation, prove_async, prover
from truecluster.api import EdgeEnded, HandshakeError


def _blocking(sock: socket.socket):
    def read(n: int) -> bytes:
        data = b""
        while len(data) < n:
            piece = sock.recv(n - len(data))
            if not piece:
                raise EdgeEnded("gone")
            data += piece
        return data

    return read, sock.sendall


def _both(dialer, listener) -> list[BaseException | None]:
    """Run the two proofs against each other; a failing one closes its socket."""
    outcome: list[BaseException | None] = [None, None]
    pair = socket.socketpair()

    def run(i: int, prove) -> None:
        with pair[i]:
            try:
                prove(*_blocking(pair[i]), i == 0)
            except Exception as error:
                outcome[i] = error

    threads = [threading.Thread(target=run, args=(i, prove)) for i, prove in enumerate((dialer, listener))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return outcome


def test_same_key_and_purpose_pass() -> None:
    assert _both(prover(b"k"), prover(b"k")) == [None, None]


def test_wrong_key_fails_on_both_sides_and_says_what_to_do() -> None:
    errors = _both(prover(b"right"), prover(b"wrong"))
    for error in errors:
        assert isinstance(error, HandshakeError)
        assert "--key-file" in str(error)
        assert "TRUECLUSTER_KEY" in str(error)


def test_other_purpose_is_named_on_both_sides() -> None:
    errors = _both(prover(b"k", Purpose.CONTROL), prover(b"k", Purpose.BULK))
    assert all(isinstance(error, HandshakeError) for error in errors)
    assert "control here, for bulk there" in str(errors[0])
    assert "bulk here, for control there" in str(errors[1])


def _listener_hears(data: bytes) -> HandshakeError:
    steps = conversation(b"k", (Purpose.EDGE,), dialer=False)
    wanted = next(steps)
    with pytest.raises(HandshakeError) as caught:  # noqa: PT012
        while True:
            if isinstance(wanted, bytes):
                wanted = steps.send(b"")
                continue
            piece, data = data[:wanted], data[wanted:]
            wanted = steps.send(piece) if len(piece) == wanted else steps.throw(EdgeEnded("gone"))
    return caught.value


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01" + bytes(60), bytes(64)])
def test_what_is_not_truecluster_is_told_so(garbage: bytes) -> None:
    assert "not a TrueCluster" in str(_listener_hears(garbage))


def test_protocol_numbers_are_both_named() -> None:
    message = str(_listener_hears(b"\x89TrueCl\n" + b"\x00\x07\x03" + bytes(32)))
    assert "protocol 1 here, 7 there" in message


def test_unknown_purpose_is_refused() -> None:
    assert "unknown purpose 9" in str(_listener_hears(b"\x89TrueCl\n" + b"\x00\x01\x09" + bytes(32)))


@pytest.mark.parametrize("size", [0, 7, 20, 50])
def test_a_peer_that_hangs_up_midway_is_told_apart_from_a_wrong_key(size: int) -> None:
    message = str(_listener_hears((b"\x89TrueCl\n" + b"\x00\x01\x03" + bytes(64))[:size]))
    assert ("key" in message) is (size == 50)


def test_the_proof_is_the_documented_hmac() -> None:
    steps = conversation(b"secret", (Purpose.EDGE,), dialer=True)
    mine = next(steps)
    theirs = b"\x89TrueCl\n" + b"\x00\x01\x03" + bytes(range(32))
    assert steps.send(b"") == 8
    assert steps.send(theirs[:8]) == 35
    proof = steps.send(theirs[8:])
    assert proof == hmac.new(b"secret", b"\x01" + mine + theirs, hashlib.sha256).digest()


def test_a_reflected_proof_fails() -> None:
    """An impostor without the key sends a dialer's own bytes back to it."""
    steps = conversation(b"secret", (Purpose.EDGE,), dialer=True)
    mine = next(steps)
    steps.send(b"")
    steps.send(mine[:8])
    proof = steps.send(mine[8:])
    assert steps.send(b"") == 32
    with pytest.raises(HandshakeError):
        steps.send(proof)


def test_async_and_blocking_sides_speak_the_same() -> None:
    async def listen(stream) -> None:
        async with stream:
            await prove_async(stream, b"k", Purpose.EDGE, dialer=False)

    def dial(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            prover(b"k")(*_blocking(sock), True)

    async def main() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, listen)
            port = listener.extra(SocketAttribute.local_port)
            await anyio.to_thread.run_sync(dial, port)
            group.cancel_scope.cancel()

    anyio.run(main)


def test_a_silent_peer_meets_the_deadline() -> None:
    async def main() -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra(SocketAttribute.local_port)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                with pytest.raises(HandshakeError, match=r"within 0\.05 s"):
                    await prove_async(stream, b"k", Purpose.CONTROL, dialer=True, timeout=0.05)

    anyio.run(main)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([b"", b"\x89TrueCl\n", b"\x89TrueCl\n\x00\x01\x03"]), st.binary(max_size=120), st.booleans())
def test_any_bytes_give_the_one_error(start: bytes, rest: bytes, dialer: bool) -> None:
    """Whoever has no key gets a refusal out of either side, and no other exception (DIST-05, before HELLO)."""
    steps, data = conversation(b"k", (Purpose.EDGE,), dialer), start + rest
    wanted = next(steps)
    with pytest.raises(HandshakeError):  # noqa: PT012
        while True:
            if isinstance(wanted, bytes):
                wanted = steps.send(b"")
                continue
            assert wanted <= 64
            piece, data = data[:wanted], data[wanted:]
            wanted = steps.send(piece) if len(piece) == wanted else steps.throw(EdgeEnded("gone"))
