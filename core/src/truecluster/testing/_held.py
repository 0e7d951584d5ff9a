"""How many bytes a handle occupies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from truecluster.api import DeviceContext, WeightFormat


def held_bytes(handle: Any, source: torch.Tensor) -> int:
    """Bytes of all tensors and buffers that a handle reaches, shared memory counted once.

    Of the memory that ``source`` lies in, which may be a whole file, only what the handle's tensors name.
    """
    whole: dict[int, int] = {}
    named: list[tuple[int, int]] = []
    for part in _parts(handle, set()):
        if not isinstance(part, torch.Tensor):
            whole[id(part)] = part.nbytes
            continue
        storage = part.untyped_storage()
        if storage.data_ptr() == source.untyped_storage().data_ptr():
            named.append((part.data_ptr(), part.data_ptr() + part.nbytes))
        else:
            whole[storage.data_ptr()] = storage.nbytes()
    return sum(whole.values()) + _union(named)


def _union(spans: list[tuple[int, int]]) -> int:
    total = end = 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen or isinstance(value, (type, str, WeightFormat, DeviceContext)):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
        return
    try:
        yield memoryview(value)
    except TypeError:
        for item in _inner(value):
            yield from _parts(item, seen)


def _inner(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (tuple, list)):
        return list(value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [getattr(value, name) for name in slots if hasattr(value, name)] + list(
        getattr(value, "__dict__", {}).values()
    )
