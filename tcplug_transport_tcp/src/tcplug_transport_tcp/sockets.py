"""Sockets that are bound, dialled and set up the way both halves of the transport need them."""

from __future__ import annotations

import errno
import socket
from typing import Any

from truecluster.api import AddressError

_BACKLOG = 128
_BUFFER_BYTES = 4 << 20
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_BIND_REMEDIES = {
    errno.EADDRINUSE: "another process listens there; stop it, or choose another port (0 takes a free one)",
    errno.EADDRNOTAVAIL: "this machine does not have that address; give one of its own",
    errno.EACCES: "the system forbids that port to this user; choose one from 1024 on (0 takes a free one)",
}

Address = tuple[str, int]


def shown(host: str, port: int) -> str:
    """An address for people, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, on the first address of ``host`` that can be listened on. Raises `AddressError`.

    ``::`` takes IPv4 too.
    """
    check_port(host, port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise AddressError(unknown_host(host, port, error)) from error
    failure: OSError | None = None
    for family, kind, protocol, _, address in found:
        try:
            return _listen(socket.socket(family, kind, protocol), address)
        except OSError as error:
            failure = failure or error
    assert failure is not None
    remedy = _BIND_REMEDIES.get(failure.errno or 0, "choose another address or port")
    raise AddressError(f"can't listen on {shown(host, port)}: {failure.strerror}; {remedy}") from failure


def _listen(sock: socket.socket, address: Any) -> socket.socket:
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        sock.bind(address)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def check_port(host: str, port: int) -> None:
    """Raises `AddressError` for a port that doesn't exist."""
    if not 0 <= port <= 65535:
        raise AddressError(f"port {port} of {host!r} does not exist; ports go from 0 to 65535")


def unknown_host(host: str, port: int, error: Exception) -> str:
    """What to say about a host whose address isn't known."""
    return f"can't find the address of {shown(host, port)}: {error}; check the host's name"


def unreachable(host: str, port: int, error: Exception | str) -> str:
    """What to say about an address that doesn't answer."""
    return f"can't reach {shown(host, port)}: {error}; check the address, that the peer is running, and the firewall"


def tune(sock: socket.socket, dead_after_s: float) -> None:
    """Send at once, and notice within ``dead_after_s`` seconds or so that the peer is gone without a word."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {**_KEEPALIVE, "TCP_USER_TIMEOUT": int(dead_after_s * 1000)}
    for name, value in options.items():
        if hasattr(socket, name):  # not every system has each of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def widen(sock: socket.socket) -> None:
    """Room in the system's buffers for a few steps."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)


def local_address(sock: socket.socket) -> Address:
    """Host and port that a socket is bound to. An IPv4 address that came over an IPv6 socket is shown as what it is."""
    host, port = sock.getsockname()[:2]
    return str(host).removeprefix("::ffff:") if "." in host else host, port
