"""Requests whose connection a test holds in its hands."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it didn't happen in time"
        time.sleep(0.01)


def open_request(port: int, path: str, body: dict[str, Any]) -> socket.socket:
    """A connection over which a request was sent and nothing was read."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(head.encode() + content)
    return connection
