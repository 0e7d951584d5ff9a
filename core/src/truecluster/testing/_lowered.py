"""Networks of one kernel, with weights made up from their names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import attrs
import torch

from truecluster.api import Description, Kernel, Packed, PluginError, Slot, Target, WeightFormat
from truecluster.nn import Lowering, RankedKernel


@attrs.frozen(eq=False)
class Bound:
    """A callable with the packed bytes that its handles were made from, which live as long as it does."""

    run: Callable[..., torch.Tensor]
    packed: Mapping[str, Packed]

    def __call__(self, *inputs: Any) -> torch.Tensor:
        return self.run(*inputs)


def holds(format: WeightFormat, description: Description) -> bool:
    """Whether ``format`` can hold every matrix of ``description``."""
    try:
        return all(format.wire_bytes(slot.shape) > 0 for slot in description.slots() if len(slot.shape) > 1)
    except PluginError:
        return False


def packed_of(slot: Slot, target: Target, seed: int = 0) -> Packed:
    """A packed tensor in memory of its own, the same for the same slot, format and ``seed`` every time."""
    packed = _packed(target.formats[slot.key], slot, seed)
    return attrs.evolve(packed, data=packed.data.clone())


def unpacked(slot: Slot, target: Target, seed: int = 0) -> torch.Tensor:
    """What the kernel is held to, in fp64."""
    format = target.formats[slot.key]
    return format.unpack(_packed(format, slot, seed)).double()


@lru_cache(maxsize=256)
def _packed(format: WeightFormat, slot: Slot, seed: int) -> Packed:
    """Norms are around 1."""
    generator = torch.Generator().manual_seed(zlib.crc32(slot.key.encode()) + seed)
    noise = torch.randn(slot.shape, generator=generator)
    return format.pack(noise * 0.1 if len(slot.shape) > 1 else 1 + 0.3 * noise)


def bound(kernel: Kernel, description: Description, target: Target, seed: int = 0) -> Bound:
    """The kernel's own callable; it must accept the description."""
    packed = {slot.key: packed_of(slot, target, seed) for slot in description.slots()}
    return bound_to(kernel, description, target, packed)


def bound_to(kernel: Kernel, description: Description, target: Target, packed: Mapping[str, Packed]) -> Bound:
    """The kernel's own callable over such tensors, which are given by the slots' keys."""
    handles = {slot.key: kernel.prepare(slot, packed[slot.key], target) for slot in description.slots()}
    return Bound(kernel.bind(description, handles, target), packed)


def lowered(kernels: list[Kernel], description: Description, target: Target) -> Bound:
    """The network where the first of ``kernels`` that accepts takes the place, the reference elsewhere."""
    ranked = [RankedKernel(f"kernel {i}", -i, kernel) for i, kernel in enumerate(kernels)]
    lowering = Lowering(target, ranked)
    packed = {slot.key: packed_of(slot, target) for slot in description.slots()}
    handles = {
        (reader.name, slot.key): reader.kernel.prepare(slot, packed[slot.key], target)
        for slot, readers in lowering.readers(description).items()
        for reader in readers
    }
    return Bound(lowering.bind(description, handles), packed)


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
    """The largest relative error of a row, by the Euclidean norm; not a number where one of them isn't."""
    wanted = wanted.double()
    wrong = (found.double() - wanted).norm(dim=-1)
    return float((wrong / wanted.norm(dim=-1).clamp_min(1e-30)).max())
