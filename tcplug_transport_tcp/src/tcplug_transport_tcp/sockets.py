"""Sockets that are bound, dialled and set up the way both halves of the transport need them."""

from __future__ import annotations

import errno
import socket

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
    """A listening socket, on the first address that ``host`` stands for. Raises `AddressError`."""
    check_port(host, port)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise AddressError(unknown_host(host, port, error)) from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        remedy = _BIND_REMEDIES.get(error.errno or 0, "choose another address or port")
        raise AddressError(f"can't listen on {shown(host, port)}: {error.strerror}; {remedy}") from error
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
    """Host and port that a socket is bound to."""
    host, port = sock.getsockname()[:2]
    return host, port
