"""Addresses as text: which are this machine's own, and how they are shown."""

from __future__ import annotations

import ipaddress

EVERYWHERE = ("0.0.0.0", "::")
"""Addresses to listen on that nobody can dial."""


def is_loopback(host: str) -> bool:
    """Whether only this machine is reached at ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bracketed(host: str) -> str:
    """A host as it stands before a port, or in a URL."""
    return f"[{host}]" if ":" in host else host


def shown(host: str, port: int) -> str:
    """Host and port for people."""
    return f"{bracketed(host)}:{port}"
