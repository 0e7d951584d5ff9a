"""The ports that addresses within a process may have: those of any other address."""

from __future__ import annotations

from truecluster.api import AddressError


def check_port(host: str, port: int) -> None:
    """Raises `AddressError` for a port that doesn't exist."""
    if not 0 <= port <= 65535:
        raise AddressError(f"port {port} of {host!r} does not exist; ports go from 0 to 65535")
