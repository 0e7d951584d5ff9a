"""Sockets of this machine: loopback, IPv6, and the ports that are taken by default."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from .finding import FAIL, WARN, Finding

PORTS = {7001: "--node-port of tc cluster", 8000: "--api-port of tc run --serve and tc cluster"}
WAIT_S = 5.0


def look() -> Iterator[Finding]:
    """Connects only to itself."""
    reason = _refused(socket.AF_INET, "127.0.0.1")
    if reason is None:
        yield Finding("loopback", "127.0.0.1 works")
    else:
        yield Finding("loopback", f"127.0.0.1: {reason}", FAIL, "bring the loopback interface up")
    reason = _refused(socket.AF_INET6, "::1")
    if reason is None:
        yield Finding("IPv6", "::1 works")
    else:
        yield Finding("IPv6", f"::1: {reason}", WARN, "give addresses of IPv4, or switch IPv6 on")
    for port, option in PORTS.items():
        yield _port(port, option)


def _refused(family: socket.AddressFamily, host: str) -> str | None:
    """Why a connection within this machine fails."""
    try:
        with socket.socket(family) as listener, socket.socket(family) as dialler:
            listener.bind((host, 0))
            listener.listen()
            dialler.settimeout(WAIT_S)
            dialler.connect(listener.getsockname()[:2])
    except OSError as error:
        return error.strerror or str(error)
    return None


def _port(port: int, option: str) -> Finding:
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
    except OSError as error:
        remedy = f"end what listens there, or choose another with {option}"
        return Finding(f"port {port}", f"can't be listened on: {error.strerror or error}", WARN, remedy)
    return Finding(f"port {port}", "free")
