"""What only a real socket shows."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

import attrs
import httpx
import pytest
from openai_shapes import validate
from sockets import open_request, wait_until

from truecluster._engine.requests import FinishedEvent, TokenEvent
from truecluster._serve import listen, protocol
from truecluster.api import AddressError

CHATS = "/v1/chat/completions"
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def test_clients_that_leave_cancel_their_requests(running: Any, client: httpx.Client) -> None:
    """API-30: without streaming too."""
    engine = running.state.engine
    engine.events = []
    connections = [open_request(running.port, CHATS, CHAT) for _ in range(20)]
    wait_until(lambda: len(engine.asked) == 20)
    assert not any(handle.cancelled.is_set() for handle in engine.handles)
    for connection in connections:
        connection.close()
    wait_until(lambda: all(handle.cancelled.is_set() for handle in engine.handles))
    engine.events = [FinishedEvent(reason="length", generated=0)]
    assert client.post("/v1/chat/completions", json=CHAT).status_code == 200


def test_leaving_cancels_every_prompt_of_a_request(running: Any) -> None:
    engine = running.state.engine
    engine.events = []
    body = {"model": "tiny", "prompt": ["a", "b", "c"]}
    with contextlib.closing(open_request(running.port, "/v1/completions", body)):
        wait_until(lambda: len(engine.asked) == 3)
    wait_until(lambda: all(handle.cancelled.is_set() for handle in engine.handles))


def test_a_client_that_leaves_inside_its_body_harms_nobody(
    running: Any, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    head = (
        b"POST /v1/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(head)
        time.sleep(0.1)
    assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_headers_without_end_are_cut_off(running: Any) -> None:
    """SEC-13: before they take memory."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: [::1]\r\nx: " + b"a" * 200_000)
        received = b""
        with contextlib.suppress(ConnectionError):
            received = connection.recv(100)
        assert received.startswith(b"HTTP/1.1 400") or not received


@pytest.mark.parametrize("said", [b"", b"GET /v1/models HTTP/1.1\r\nhost: [::1]\r\n"])
def test_connections_that_never_ask_are_closed(start: Any, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    """SEC-13: also one that says half of a head, and one that was answered before."""
    with start() as server, connected(server) as answered, connected(server) as other:
        ask_for_health(answered)
        ask_for_health(other)  # when this is answered the server is done with the first one
        monkeypatch.setattr(protocol, "HEAD_TIMEOUT", 0.2)
        with connected(server) as silent:
            silent.sendall(said)
            assert silent.recv(100) == b""
        ask_for_health(answered)  # and has less time from here on
        answered.sendall(b"GET ")
        assert answered.recv(1000) == b""


def connected(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def ask_for_health(connection: socket.socket) -> None:
    connection.sendall(b"GET /health HTTP/1.1\r\nhost: [::1]\r\n\r\n")
    received = b""
    while not received.endswith(b"}"):
        data = connection.recv(1000)
        assert data, "the connection was closed"
        received += data


def test_a_slow_answer_is_no_silent_client(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked is waited for, however long it takes, and so is a body that still comes."""
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT", 1.0)
    body = b'{"model": "tiny", "prompt": "abc"}'
    head = (
        b"POST /v1/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    with start() as server, socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head % len(body))
        time.sleep(1.5)
        connection.sendall(body)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_many_headers_are_cut_off(running: Any, client: httpx.Client) -> None:
    """SEC-13: by their size together."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
        received = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(
                b"GET /v1/models HTTP/1.1\r\nhost: [::1]\r\n" + b"x-a: aaaaaaaaaaaaaaaa\r\n" * 10_000 + b"\r\n"
            )
            received = connection.recv(100)
        assert received.startswith(b"HTTP/1.1 4") or not received
    assert client.get("/health").status_code == 200


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends or cuts the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(1 << 20):
            received += data
    return received


def test_a_client_that_reads_nothing_is_left(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DIST-09: its stream is cancelled and its connection cut, while others are answered."""
    monkeypatch.setattr(protocol, "SEND_TIMEOUT", 0.5)
    with start() as server:
        server.state.text = attrs.evolve(server.state.text, context=10**7)
        server.state.engine.events = [TokenEvent(0x61)] * 100_000
        with open_request(server.port, "/v1/completions", {"model": "tiny", "prompt": "a", "stream": True}) as stalled:
            wait_until(lambda: server.state.engine.handles and server.state.engine.handles[0].cancelled.is_set(), 60)
            server.state.engine.events = [FinishedEvent(reason="length", generated=0)]
            assert httpx.post(f"http://127.0.0.1:{server.port}{CHATS}", json=CHAT, timeout=60).status_code == 200
            assert b"[DONE]" not in everything(stalled)


def test_a_whole_answer_that_is_not_read_is_cut(
    start: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing waits for ever for it to be read."""
    monkeypatch.setattr(protocol, "SEND_TIMEOUT", 0.5)
    with start() as server:
        server.state.text = attrs.evolve(server.state.text, context=10**8)
        server.state.engine.events = [FinishedEvent(reason="length", generated=0)]
        body = {"model": "tiny", "prompt": "a" * 500_000, "echo": True, "max_tokens": 0, "n": 32}
        with open_request(server.port, "/v1/completions", body) as connection:
            wait_until(lambda: "was left" in caplog.text, 60)
            assert len(everything(connection)) < 16_000_000


CHUNKED = b"POST %s HTTP/1.1\r\nhost: [::1]\r\ntransfer-encoding: chunked\r\ncontent-type: %s\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00",
        b"GET /health HTTP/1.1\r\nhost: [::1]\r\ncontent-length: -3\r\n\r\n",
        CHUNKED % (b"/v1/completions", b"application/json") + b"zz\r\n",
    ],
    ids=["no host", "tls", "length", "chunk"],
)
def test_what_is_no_http_is_refused_in_openais_shape(running: Any, said: bytes) -> None:
    """API-26."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
        connection.sendall(said + b"\r\n\r\n")
        head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    validate(json.loads(body), "ErrorResponse")


def test_garbage_behind_an_early_answer_only_ends_the_connection(
    running: Any, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The body is of no type that is read, so that its answer is sent before the body is there."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
        connection.sendall(CHUNKED % (b"/v1/completions", b"text/plain"))
        assert connection.recv(1000).startswith(b"HTTP/1.1 415")
        connection.sendall(b"zz\r\n\r\n")
        assert b"HTTP/1.1" not in everything(connection)
    assert client.get("/health").status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_port_in_use_is_found_before_anything_is_served(running: Any) -> None:
    with pytest.raises(AddressError, match=rf"127\.0\.0\.1:{running.port}: the port is in use.*--api-port"):
        listen("127.0.0.1", running.port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(AddressError, match="--api-host"):
        listen("192.0.2.1", 0)


def test_stopping_frees_the_port_even_while_a_request_waits(stoppable: Any) -> None:
    stoppable.state.engine.events = []
    with contextlib.closing(open_request(stoppable.port, CHATS, CHAT)):
        wait_until(lambda: len(stoppable.state.engine.asked) == 1)
        stoppable.stop()
    assert stoppable.state.engine.handles[0].cancelled.is_set()
    listen("127.0.0.1", stoppable.port).close()
