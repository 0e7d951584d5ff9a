"""What the calls of one thread share."""

from __future__ import annotations

import ctypes
import threading

import torch

from truecluster.api import Rotary
from truecluster.nn import Batch, PagedState

from .native import Cache, Step


class Workspace(threading.local):
    """Memory that the calls of a thread reuse, and the struct of the step that it is at."""

    def __init__(self) -> None:
        self._room = torch.empty(0, dtype=torch.uint8)
        self._of: tuple[Batch | None, Rotary | None] = (None, None)
        self._step = Step()

    def at_least(self, size: int) -> int:
        """The address of ``size`` bytes of the calling thread's, whose content its next call may change.

        They grow to the largest need, and stay.
        """
        if self._room.numel() < size:
            self._room = torch.empty(size, dtype=torch.uint8)
        return self._room.data_ptr()

    def step(self, batch: Batch, rotary: Rotary | None = None) -> int:
        """The address of the struct of a step, with the tables of a rotary: made once for all layers that have it."""
        made, turned = self._of
        if batch is not made or rotary != turned:
            self._of, self._step = (batch, rotary), _step_of(batch, rotary)
        return ctypes.addressof(self._step)


def _step_of(batch: Batch, rotary: Rotary | None) -> Step:
    assert batch.rows.is_contiguous()
    assert batch.pages.is_contiguous()
    cos, sin = [table.data_ptr() for table in batch.tables[rotary]] if rotary else (0, 0)
    return Step(batch.rows.data_ptr(), batch.pages.data_ptr(), cos, sin, *batch.pages.shape)


def cache_of(state: PagedState) -> Cache:
    """The struct of a layer's cache; valid while ``state`` lives."""
    keys, values = state.arrays["k"], state.arrays["v"]
    assert keys.dtype is torch.float32
    assert keys.is_contiguous()
    assert values.is_contiguous()
    return Cache(keys.data_ptr(), values.data_ptr(), keys.shape[0], state.sliding or 0)
