"""Hosts and ports as users write them, and the options of a node's edges. Imports nothing heavy."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from truecluster._wire.addresses import EVERYWHERE, is_loopback
from truecluster.api import RequestError

if TYPE_CHECKING:
    from truecluster._node.addresses import EdgeAddress

NODE_PORT = 7001
NOWHERE = "none"
IN_BRACKETS = re.compile(r"\[([^][]*)\](?::(.*))?")

ClusterHost = Annotated[
    str,
    typer.Option(metavar="HOST[:PORT]", help="The coordinator's address: a name, IPv4 or IPv6, [IPv6]:PORT too."),
]
ClusterPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, metavar="PORT", help=f"Its port for nodes.  [default: {NODE_PORT}]"),
]
EdgeHost = Annotated[
    str | None,
    typer.Option(
        metavar="HOST|none",
        help="Address to listen on for neighbours' steps; none where they can't dial this node, as behind NAT: its "
        "edges then dial, through the coordinator where need be.  [default: this node's towards the coordinator]",
    ),
]
EdgePort = Annotated[
    int, typer.Option(min=0, max=65535, metavar="PORT", help="Port to listen on for them; 0 takes a free one.")
]
AdvertiseHost = Annotated[
    str | None,
    typer.Option(metavar="HOST", help="What neighbours are told to dial.  [default: the address listened on]"),
]


def host_and_port(text: str, option: str) -> tuple[str, int | None]:
    """``name``, ``name:9000``, ``127.0.0.1:9000``, ``::1``, ``fe80::1%eth0``, ``[::1]``, ``[::1]:9000``.

    Raises `RequestError` naming the option for anything else.
    """
    found = IN_BRACKETS.fullmatch(text)
    if found is not None:
        host, port = found[1], found[2]
        _check_ipv6(host, text, option)
    elif text.count(":") > 1:
        host, port = text, None
        _check_ipv6(host, text, option)
    else:
        host, colon, rest = text.partition(":")
        port = rest if colon else None
    if not host or re.search(r"[\s/\[\]]", host):
        raise RequestError(f"{option} {text!r} names no host; give a name or an address, such as 192.168.1.5")
    return host, None if port is None else _port(port, text, option)


def only_host(text: str, option: str, port_option: str | None = None) -> str:
    """As `host_and_port`, for an option that takes no port."""
    host, port = host_and_port(text, option)
    if port is not None:
        remedy = f"the port goes to {port_option}" if port_option else "leave the port out"
        raise RequestError(f"{option} {text!r} holds a port; {remedy}")
    return host


def only_api_host(text: str) -> str:
    """``--api-host`` without brackets."""
    return only_host(text, "--api-host", "--api-port")


def to_dial(host: str) -> str:
    """What other machines can dial where ``host`` is listened on: with every address, this machine's towards them."""
    if host not in EVERYWHERE:
        return host
    family, anywhere = (socket.AF_INET, "192.0.2.1") if host == "0.0.0.0" else (socket.AF_INET6, "2001:db8::1")
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((anywhere, 9))  # sends nothing: it only asks the system for a way
            return str(sock.getsockname()[0])
    except OSError:
        return socket.gethostname()


def cluster_address(host: str, port: int | None) -> tuple[str, int]:
    """``--cluster-host`` and ``--cluster-port``, which may both hold the port. Raises `RequestError`."""
    found, own = host_and_port(host, "--cluster-host")
    if own is not None and port is not None and own != port:
        raise RequestError(f"--cluster-host {host!r} and --cluster-port {port} name two ports; give one")
    if found in EVERYWHERE:
        raise RequestError(f"--cluster-host {host!r} is no address to dial; give the coordinator's own")
    return found, own or port or NODE_PORT


def edge_address(host: str | None, port: int, advertised: str | None) -> EdgeAddress:
    """The options of a node's edges. Raises `RequestError`."""
    from truecluster._node.addresses import EdgeAddress

    if host == NOWHERE:
        if port or advertised is not None:
            raise RequestError(
                "--edge-host none: nobody dials this node, so leave --edge-port and --advertise-host out"
            )
        return EdgeAddress(dialable=False)
    listened = None if host is None else only_host(host, "--edge-host", "--edge-port")
    told = None if advertised is None else only_host(advertised, "--advertise-host", "--edge-port")
    if told in EVERYWHERE:
        raise RequestError(f"--advertise-host {advertised!r} is no address to dial; give one of this machine's")
    if listened is not None and is_loopback(listened) and told is not None and not is_loopback(told):
        raise RequestError(
            f"--edge-host {host!r} can't be reached at --advertise-host {advertised!r}; listen on 0.0.0.0"
        )
    return EdgeAddress(host=listened, port=port, advertised=told)


def _check_ipv6(host: str, text: str, option: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise RequestError(
            f"{option} {text!r} is no address: {host!r} is not IPv6. With a port, write [::1]:9000 or 127.0.0.1:9000"
        ) from None


def _port(port: str, text: str, option: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise RequestError(f"{option} {text!r}: {port!r} is no port; ports go from 1 to 65535")
    return int(port)
