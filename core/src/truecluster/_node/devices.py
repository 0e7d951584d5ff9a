"""Choosing a device among those that the installed backends find."""

from __future__ import annotations

from truecluster._registry import Registry
from truecluster.api import DeviceBackend, DeviceContext, DeviceInfo, DeviceSpec, RequestError


class Devices:
    """The devices of this machine."""

    def __init__(self, registry: Registry) -> None:
        specs = [offer.spec for offer in registry.offers("device")]
        ranked = sorted((s for s in specs if isinstance(s, DeviceSpec)), key=lambda s: -s.rank)
        self._backends: dict[str, DeviceBackend] = {s.name: registry.resolve("device", s.name)() for s in ranked}
        self._found = [(name, info) for name, backend in self._backends.items() for info in backend.detect()]

    @property
    def found(self) -> tuple[DeviceInfo, ...]:
        """Every device, the one that ``auto`` takes first."""
        return tuple(info for _, info in self._found)

    def choose(self, wanted: str) -> DeviceInfo:
        """``auto``, a kind (``cuda``: its first) or an id (``cuda:1``). Raises `RequestError` naming what there is."""
        for info in self.found:
            if wanted in ("auto", info.kind, info.id):
                return info
        there = ", ".join(info.id for info in self.found) or "none"
        raise RequestError(f"device {wanted!r} isn't on this machine; choose one of its devices with --device: {there}")

    def open(self, info: DeviceInfo, threads: int | None) -> DeviceContext:
        """A context on the device for one stage."""
        backend = next(name for name, found in self._found if found.id == info.id)
        return self._backends[backend].open(info.id, threads)
