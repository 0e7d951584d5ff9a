"""A description over the paged state of a few sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import torch

from truecluster.api import Description, DeviceContext, Paged
from truecluster.nn import Attend, Attention, DecoderBlock, Row, SequenceState

SEQUENCES = 3
PAGES = 10
"""Of each sequence; no two of them are neighbours."""


class Stage:
    """``run`` is called with rows alone where ``description`` has no state; its sequences are 0, 1 and 2."""

    def __init__(
        self,
        run: Callable[..., torch.Tensor],
        description: Description,
        device: DeviceContext,
        dtype: torch.dtype,
        sliding: int | None,
    ) -> None:
        self._run, self._device = run, device
        attention = description.attention if isinstance(description, DecoderBlock) else description
        attend = attention.attend if isinstance(attention, Attention) else attention
        self._state = None
        if isinstance(attend, Attend):
            paged = Paged(dict.fromkeys(("k", "v"), (attend.kv_heads, attend.head_dim)), sliding=sliding)
            rotary = getattr(attention, "rotary", None)
            self._state = _opened(paged, [rotary] if rotary else [], device, dtype)

    def first(self, x: torch.Tensor) -> torch.Tensor:
        """A sequence's first rows, passed and returned as they are, on the device."""
        if self._state is None:
            return self._run(x)
        return self._run(x, self._state.begin([Row(0, 0, len(x))] if len(x) else []), self._state.layers[0])

    def step(self, *parts: tuple[int, int, torch.Tensor]) -> torch.Tensor:
        """Of (sequence, position, rows): what comes of all, in order, on the host."""
        assert self._state is not None
        batch = self._state.begin([Row(sequence, position, len(x)) for sequence, position, x in parts])
        x = self._device.upload(torch.cat([x for _, _, x in parts]))
        return self._device.download(self._run(x, batch, self._state.layers[0])).clone()

    def prompt(self, x: torch.Tensor, cuts: Iterable[int] = (), sequence: int = 0) -> torch.Tensor:
        """A sequence from its start, in pieces that begin at ``cuts``."""
        edges = [0, *cuts, len(x)]
        pieces = [(start, x[start:stop]) for start, stop in pairwise(edges)]
        return torch.cat([self.step((sequence, start, piece)) for start, piece in pieces])


def _opened(paged: Paged, rotaries: list[Any], device: DeviceContext, dtype: torch.dtype) -> SequenceState:
    state = SequenceState(
        {0: paged}, rotaries, pages=SEQUENCES * PAGES, sequences=SEQUENCES, device=device.id, dtype=dtype
    )
    for sequence in range(SEQUENCES):
        state.open(sequence)
        for page in reversed(range(sequence, SEQUENCES * PAGES, SEQUENCES)):
            state.extend(sequence, page)
    return state
