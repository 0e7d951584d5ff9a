"""The transports of one process, made once; nodes that share a process share this object."""

from __future__ import annotations

from typing import Any

from truecluster._registry import Registry
from truecluster.api import EdgeTransport, PluginError, StreamTransport, TransportSpec

CONTROL_FALLBACK = "tcp"


class Transports:
    """Transport name → its one object here."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[str, Any] = {}

    def edges(self, name: str) -> EdgeTransport:
        """Raises `PluginError` where the transport has no edges."""
        if not self.spec(name).edges:
            raise PluginError(f"transport {name!r} has no edges; choose another with --transport")
        made: EdgeTransport = self._make(name)
        return made

    def streams(self, name: str) -> StreamTransport:
        """The transport's own streams, or TCP's where it has none."""
        made: StreamTransport = self._make(name if self.spec(name).streams else CONTROL_FALLBACK)
        return made

    def spec(self, name: str) -> TransportSpec:
        spec = self._registry.spec("transport", name)
        assert isinstance(spec, TransportSpec)
        return spec

    def discard(self, name: str) -> None:
        """Withdraw the transport's offers and wake what waits on them; the next use makes it anew."""
        made = self._made.pop(name, None)
        if isinstance(made, EdgeTransport):
            made.close()

    def close(self) -> None:
        """Withdraw every offered edge."""
        for transport in self._made.values():
            if isinstance(transport, EdgeTransport):
                transport.close()

    def _make(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._registry.resolve("transport", name)()
        return self._made[name]
