"""What a stage keeps of its sequences, and the batch that a step becomes.

The engine allocates pages and numbers sequences; a stage only obeys, and checks. Page ids are logical and run-wide:
every stage uses its own physical page of the same id.
"""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs
import torch

from truecluster.api import Paged, Recurrent, Rotary, State, StateError

from .rotary import Angles

PAGE = 32
"""Tokens per page."""


@attrs.define(eq=False)  # not frozen: that would set each field by a call, dear where weights have emptied the caches
class Batch:
    """One step's ragged group of sequences, as tensors that are valid until the next step. Only read by who gets it.

    ``rows [r, 4]`` int32 on the host: first token in the step, number of tokens, position of the first, sequence
    slot; ``pages [r, p]`` int32 on the host: page ids in order, padded with -1; ``positions [n]`` int32 and
    ``tables`` (rotary → cosine and sine ``[n, dim / 2]`` fp32) on the device.
    """

    rows: torch.Tensor
    pages: torch.Tensor
    positions: torch.Tensor
    tables: Mapping[Rotary, tuple[torch.Tensor, torch.Tensor]]


class _Tables:
    """Tables of int32 on the host, in the same memory as long as their shapes stay: making tensors is what costs."""

    def __init__(self) -> None:
        self._shapes: tuple[tuple[int, ...], ...] = ()
        self._numbers = struct.Struct("0i")
        self._memory = bytearray()
        self._tensors: list[torch.Tensor] = []

    def filled(self, numbers: list[int], *shapes: tuple[int, ...]) -> list[torch.Tensor]:
        """One of each of ``shapes``, holding the ``numbers`` one behind the other, row by row."""
        if shapes != self._shapes:
            self._shapes, self._numbers = shapes, struct.Struct(f"{len(numbers)}i")
            self._memory = bytearray(self._numbers.size + 4)  # torch takes no empty one
            held = torch.frombuffer(self._memory, dtype=torch.int32)[: len(numbers)]
            parts = torch.split(held, [math.prod(shape) for shape in shapes])
            self._tensors = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        self._numbers.pack_into(self._memory, 0, *numbers)
        return self._tensors


class Row(NamedTuple):
    """One sequence's share of a step: ``tokens`` of them, the first at ``position``."""

    sequence: int
    position: int
    tokens: int


class PagedState:
    """Keys and values (or other arrays) of one layer: name → ``[pages, PAGE, *shape]`` in the compute dtype."""

    def __init__(self, spec: Paged, pages: int, device: torch.device | str, dtype: torch.dtype) -> None:
        self.sliding = spec.sliding
        self.arrays = {
            name: torch.zeros(pages, PAGE, *shape, device=device, dtype=dtype) for name, shape in spec.arrays.items()
        }


class RecurrentState:
    """Fixed-size state of one layer: name → ``[slots, *shape]`` fp32, with snapshots to go back to.

    A block reads and writes ``arrays[name][slot]`` in place for each of ``batch.rows``, whose last column is the slot:
    zeros where a sequence starts, else what its previous tokens left.
    """

    def __init__(self, spec: Recurrent, slots: int, device: torch.device | str) -> None:
        self.depth = spec.snapshots
        self.arrays = {name: torch.zeros(slots, *shape, device=device) for name, shape in spec.arrays.items()}
        self._saved: dict[int, OrderedDict[int, dict[str, torch.Tensor]]] = {}

    def clear(self, slot: int) -> None:
        """Start a sequence."""
        self._saved[slot] = OrderedDict()
        for held in self.arrays.values():
            held[slot].zero_()

    def can_return(self, slot: int, position: int) -> bool:
        """Whether `restore` would find the snapshot."""
        return position in self._saved[slot]

    def restore(self, slot: int, position: int) -> None:
        """Go back to the snapshot taken when the sequence held ``position`` tokens."""
        saved = self._saved[slot]
        for name, value in saved[position].items():
            self.arrays[name][slot].copy_(value)
        for later in [at for at in saved if at > position]:
            del saved[later]

    def save(self, slot: int, position: int) -> None:
        """Keep the state of now, dropping the oldest snapshot beyond the depth."""
        if self.depth == 0:
            return
        saved = self._saved[slot]
        saved[position] = {name: array[slot].clone() for name, array in self.arrays.items()}
        while len(saved) > self.depth:
            saved.popitem(last=False)


@attrs.define
class _Sequence:
    slot: int
    length: int
    pages: list[int]


class SequenceState:
    """The sequences of one stage: which pages they have, how long they are, and the state of each layer."""

    def __init__(
        self,
        states: Mapping[int, State],
        rotaries: Sequence[Rotary],
        *,
        pages: int,
        sequences: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.pages = pages
        self._device = device
        self._on_host = torch.device(device).type == "cpu"
        self._tables = _Tables()
        self._angles = {rotary: Angles(rotary, device) for rotary in set(rotaries)}
        self.layers: dict[int, PagedState | RecurrentState] = {
            layer: PagedState(spec, pages, device, dtype)
            if isinstance(spec, Paged)
            else RecurrentState(spec, sequences, device)
            for layer, spec in states.items()
        }
        self._recurrent = {i: s for i, s in self.layers.items() if isinstance(s, RecurrentState)}
        self._free_slots = list(range(sequences))[::-1]
        self._sequences: dict[int, _Sequence] = {}

    def open(self, sequence: int, length: int = 0) -> None:
        """Start a sequence whose first pages, named later by `extend`, already hold ``length`` tokens."""
        if sequence in self._sequences:
            raise StateError(f"sequence {sequence} is open already")
        if not self._free_slots:
            raise StateError(f"sequence {sequence}: all {len(self._sequences)} sequence slots are taken")
        if length and self._recurrent:
            raise StateError(f"sequence {sequence}: layers {sorted(self._recurrent)} can't start from cached tokens")
        slot = self._free_slots.pop()
        for state in self._recurrent.values():
            state.clear(slot)
        self._sequences[sequence] = _Sequence(slot, length, [])

    def extend(self, sequence: int, page: int) -> None:
        """Give a sequence its next page."""
        if not 0 <= page < self.pages:
            raise StateError(f"sequence {sequence}: page {page} is outside 0..{self.pages - 1}")
        self._find(sequence).pages.append(page)

    def release(self, sequence: int) -> None:
        """Forget a sequence; its pages are the engine's again."""
        self._free_slots.append(self._find(sequence).slot)
        del self._sequences[sequence]

    def length(self, sequence: int) -> int:
        """Tokens that a sequence holds."""
        return self._find(sequence).length

    def begin(self, rows: Sequence[tuple[int, ...]]) -> Batch:
        """Check a step, truncate where a row starts below its sequence's length, and lay out the batch.

        What a row has beyond a `Row` is not looked at.
        """
        # plain loops: a comprehension, max() or range() costs 5 µs or more where weights have emptied the caches
        width = first = 0
        numbers: list[int] = []
        entries: list[_Sequence] = []
        positions: list[int] = []
        for row in rows:
            sequence, position, tokens = row[:3]
            entry = self._place(sequence, position, tokens)
            entries.append(entry)
            numbers += (first, tokens, position, entry.slot)
            first += tokens
            if len(entry.pages) > width:
                width = len(entry.pages)
            if tokens == 1:
                positions.append(position)
            else:
                positions += range(position, position + tokens)
        for entry in entries:
            numbers += entry.pages
            if len(entry.pages) < width:
                numbers += [-1] * (width - len(entry.pages))
        numbers += positions
        count = len(rows)
        table, pages, on_device = self._tables.filled(numbers, (count, 4), (count, width), (first,))
        if not self._on_host:
            on_device = on_device.to(self._device)
        tables = {}
        for rotary, angles in self._angles.items():
            tables[rotary] = angles.at(positions[0]) if first == 1 else angles.of(on_device)
        return Batch(table, pages, on_device, tables)

    def _place(self, sequence: int, position: int, tokens: int) -> _Sequence:
        entry, end = self._find(sequence), position + tokens
        if position > entry.length:
            raise StateError(
                f"sequence {sequence}: a row at position {position} leaves a gap behind the {entry.length} tokens "
                "that are held"
            )
        if end > len(entry.pages) * PAGE:
            raise StateError(f"sequence {sequence}: tokens up to {end} don't fit its {len(entry.pages)} pages")
        if position < entry.length:
            self._truncate(sequence, position, entry)
        for state in self._recurrent.values():
            state.save(entry.slot, position)
        entry.length = end
        return entry

    def _truncate(self, sequence: int, position: int, entry: _Sequence) -> None:
        stuck = [i for i, state in self._recurrent.items() if not state.can_return(entry.slot, position)]
        if stuck:
            raise StateError(
                f"sequence {sequence}: recurrent layers {stuck} can't be truncated to {position} tokens without a "
                "snapshot there; run the sequence again from its start"
            )
        for state in self._recurrent.values():
            state.restore(entry.slot, position)

    def _find(self, sequence: int) -> _Sequence:
        try:
            return self._sequences[sequence]
        except KeyError:
            raise StateError(f"sequence {sequence} is not open") from None
