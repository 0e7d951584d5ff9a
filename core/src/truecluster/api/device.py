"""Devices: what is there, and a context to compute in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import attrs

from .dtypes import DType

if TYPE_CHECKING:
    import torch

_NO_TURN = nullcontext()


@attrs.frozen(kw_only=True)
class DeviceInfo:
    """A device of this machine. ``id`` is torch's (``cuda:0``, ``mps``, ``cpu``); memory in bytes, ``None`` unknown."""

    id: str
    kind: str
    name: str
    total: int | None = None
    free: int | None = None


class DeviceContext(ABC):
    """One device, opened for one stage's thread."""

    id: str
    kind: str

    @abstractmethod
    def memory(self) -> tuple[int | None, int | None]:
        """Total and free bytes now, ``None`` where the device doesn't tell."""

    @abstractmethod
    def scope(self) -> AbstractContextManager[None]:
        """The calling thread computes on this device, its stream and its threads, without gradients.

        Raises `OutOfMemory`, with the numbers there are, in place of what torch raises where memory runs out.
        """

    def turn(self) -> AbstractContextManager[object]:
        """Held by a thread while it computes: a lock of the process where a device stands one thread at a time."""
        return _NO_TURN

    @abstractmethod
    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        """A host tensor on the device; the same tensor where the device is the host."""

    @abstractmethod
    def download(self, tensor: torch.Tensor) -> torch.Tensor:
        """A device tensor on the host, complete when this returns; the same tensor where the device is the host."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything queued is done."""

    @abstractmethod
    def native(self, dtype: DType) -> bool:
        """Whether matrix products in ``dtype`` run at the device's own speed (half on a CPU mostly doesn't)."""

    def residual(self, compute: DType) -> DType:
        """What flows between blocks where linears work in ``compute``: the same, or what holds all its values."""
        return compute


class DeviceBackend(ABC):
    """One kind of device."""

    @abstractmethod
    def detect(self) -> Sequence[DeviceInfo]:
        """The devices of this kind; empty where there are none. Never raises for an absent driver."""

    def absent(self) -> str | None:
        """What keeps a device of this kind that seems to be there from being used, and the remedy, for the user.

        ``None`` where nothing does, also where the machine has none. Never raises for an absent driver.
        """
        return None

    @abstractmethod
    def open(self, id: str, threads: int | None = None) -> DeviceContext:
        """Open a detected device; ``threads`` bounds host threads. Raises `NodeError` naming the devices there are."""
