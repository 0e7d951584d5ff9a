"""Kernels: callables that take the place of descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from .dtypes import DType
from .model import Description, Slot
from .weights import Packed, WeightFormat

if TYPE_CHECKING:
    from .device import DeviceContext


@attrs.frozen
class Dtypes:
    """``compute`` is what linears work in, ``residual`` what flows between blocks; it holds every value of the other.

    Raises `ValueError` for a pair that breaks this.
    """

    compute: DType
    residual: DType

    def __attrs_post_init__(self) -> None:
        floats = self.compute.is_float and self.residual.is_float
        if not floats or self.compute.wider(self.residual) is not self.residual:
            raise ValueError(f"{self.residual.value} can't be the residual of a computation in {self.compute.value}")


@attrs.frozen(kw_only=True, eq=False)
class Target:
    """What a network is lowered for. ``formats`` maps slot keys to formats."""

    formats: Mapping[str, WeightFormat]
    device: DeviceContext
    dtypes: Dtypes


class Kernel(ABC):
    """Takes descriptions that it can compute better than their children would.

    Every kernel is *row-local*: row r of what it returns depends on row r of what it is given (and, for attention, on
    that row's own sequence). ``invariant`` promises more: a row's bits don't depend on how many rows there are, on
    how a prompt is cut, or on the number of threads.
    """

    invariant: bool = False

    def unavailable(self) -> str | None:
        """Why this machine can't run the kernel, for the user; ``None`` where it can."""
        return None

    def details(self) -> str:
        """What of this machine the kernel works with, such as an instruction set, for the user; asked if available."""
        return ""

    @abstractmethod
    def accepts(self, description: Description, target: Target) -> bool:
        """Whether `bind` would take this description. Depends on nothing else, so that it can be asked early.

        What the kernel doesn't know is left to others: a subclass, a format's id, a kind of device, a dtype.
        """

    @abstractmethod
    def prepare(self, slot: Slot, packed: Packed, target: Target) -> Any:
        """One tensor, laid out for this kernel on the device: the handle.

        ``packed.data`` may be a mapped file, is only read, and begins at any address; the handle may keep it or copy
        it, and the caller lets go of it.
        """

    @abstractmethod
    def bind(self, description: Description, handles: Mapping[str, Any], target: Target) -> Callable[..., Any]:
        """The callable that replaces ``description``; ``handles`` has one for each of its slots, by key.

        A handle may be bound more than once. A call changes no input, and its result is no memory that calls share.
        """

    @abstractmethod
    def resident_bytes(self, format: WeightFormat, shape: tuple[int, ...]) -> int:
        """Bytes that a handle occupies, exactly, for planning."""
