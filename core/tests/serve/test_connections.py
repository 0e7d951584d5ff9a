"""What only a real socket shows."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

import httpx
import pytest
from sockets import open_request, wait_until

from truecluster._engine.requests import FinishedEvent
from truecluster._serve import listen
from truecluster.api import AddressError

CHATS = "/v1/chat/completions"
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def test_clients_that_leave_cancel_their_requests(running: Any, client: httpx.Client) -> None:
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
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(head)
        time.sleep(0.1)
    assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_headers_without_end_are_cut_off(running: Any) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 200_000)
        received = b""
        with contextlib.suppress(ConnectionError):
            received = connection.recv(100)
        assert received.startswith(b"HTTP/1.1 400") or not received


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
        started = time.monotonic()
        stoppable.stop()
        assert time.monotonic() - started < 5
    assert stoppable.state.engine.handles[0].cancelled.is_set()
    listen("127.0.0.1", stoppable.port).close()
