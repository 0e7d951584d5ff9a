"""Networks of one kernel, with weights made up from their names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from truecluster.api import (
    Description,
    DeviceContext,
    DType,
    Dtypes,
    Kernel,
    Packed,
    PluginError,
    Slot,
    Target,
    WeightFormat,
)
from truecluster.nn import Lowering, RankedKernel

from ._host import Plain


def target_of(description: Description, format: WeightFormat, device: DeviceContext) -> Target:
    """Matrices in ``format``, vectors and all computation in fp32."""
    formats = {slot.key: format if len(slot.shape) > 1 else Plain() for slot in description.slots()}
    return Target(formats=formats, device=device, dtypes=Dtypes(compute=DType.FP32, residual=DType.FP32))


def holding(formats: Sequence[WeightFormat], description: Description) -> list[WeightFormat]:
    """Those of ``formats`` that can hold every matrix of ``description``; skips the test where none can."""
    shapes = {slot.shape for slot in description.slots() if len(slot.shape) > 1}
    found = [format for format in formats if all(_holds(format, shape) for shape in shapes)]
    if not found:
        pytest.skip(f"{', '.join(format.id for format in formats)} can't hold {sorted(shapes)}")
    return found


def _holds(format: WeightFormat, shape: tuple[int, ...]) -> bool:
    try:
        return format.wire_bytes(shape) > 0
    except PluginError:
        return False


def weight_of(slot: Slot) -> torch.Tensor:
    """The same fp32 tensor for the same slot every time; norms around 1."""
    generator = torch.Generator().manual_seed(zlib.crc32(slot.key.encode()))
    noise = torch.randn(slot.shape, generator=generator)
    return noise * 0.1 if len(slot.shape) > 1 else 1 + 0.3 * noise


def packed_of(slot: Slot, target: Target) -> Packed:
    """`weight_of`, packed; a matrix begins at an odd address, as in a mapped file."""
    packed = target.formats[slot.key].pack(weight_of(slot))
    if len(slot.shape) == 1:
        return packed
    shifted = torch.cat([packed.data.new_zeros(1), packed.data])[1:]
    return Packed(packed.format, packed.shape, shifted)


def unpacked(slot: Slot, target: Target) -> torch.Tensor:
    """What the kernel is held to, in fp64."""
    format = target.formats[slot.key]
    return format.unpack(format.pack(weight_of(slot))).double()


def bound(kernel: Kernel, description: Description, target: Target) -> Callable[..., Any]:
    """The kernel's own callable; it must accept the description."""
    handles = {slot.key: kernel.prepare(slot, packed_of(slot, target), target) for slot in description.slots()}
    return kernel.bind(description, handles, target)


def lowered(kernels: list[Kernel], description: Description, target: Target) -> Callable[..., Any]:
    """The network where the first of ``kernels`` that accepts takes the place, the reference elsewhere."""
    ranked = [RankedKernel(f"kernel {i}", -i, kernel) for i, kernel in enumerate(kernels)]
    lowering = Lowering(target, ranked)
    handles = {
        (reader.name, slot.key): reader.kernel.prepare(slot, packed_of(slot, target), target)
        for slot, readers in lowering.readers(description).items()
        for reader in readers
    }
    return lowering.bind(description, handles)


def held_bytes(handle: Any) -> int:
    """Bytes of all tensors that a handle reaches, memory they share counted once."""
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in _tensors(handle, set())}
    return sum(storages.values())


def _tensors(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if id(value) in seen or isinstance(value, (type, str, bytes, WeightFormat, DeviceContext)):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
        return
    for item in _inner(value):
        yield from _tensors(item, seen)


def _inner(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (tuple, list)):
        return list(value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [getattr(value, name) for name in slots if hasattr(value, name)] + list(
        getattr(value, "__dict__", {}).values()
    )


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Compute on ``number`` host threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Of a whole tensor, relative, by the Euclidean norm."""
    wanted = wanted.double()
    return float((found.double() - wanted).norm() / wanted.norm())
