"""A whole model in one process with the reference kernel, bound by a dialect: for suites, from the public interfaces.

It shares no code with how core loads and runs models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from truecluster.api import (
    AddConstant,
    Architecture,
    Block,
    Dialect,
    DType,
    Dtypes,
    Embed,
    Head,
    Packed,
    Part,
    RotaryRows,
    SliceRows,
    Slot,
    Target,
    Transform,
    Transpose,
)
from truecluster.nn import PAGE, Batch, Lowering, Row, SequenceState, torch_dtype

from ._host import HostDevice, Plain
from .rules import require

FP32 = Dtypes(DType.FP32, DType.FP32)
Piece = tuple[int, int, torch.Tensor]
"""A sequence's share of a step: which sequence, the position of the first token, token ids ``[n]``."""


def parts(layers: int) -> list[Part]:
    """Embed, every block, head."""
    return [Embed(), *(Block(i) for i in range(layers)), Head()]


def all_slots(architecture: Architecture, config: Any) -> list[Slot]:
    """The slots of all parts, equal ones once."""
    return list(dict.fromkeys(slot for part in parts(config.layers) for slot in architecture.slots(config, part)))


def source(dialect: Dialect, key: str) -> tuple[str, str]:
    """The dialect's pattern for a slot, and the container's name of its tensor."""
    stem, suffix = (key.removesuffix(".bias"), ".bias") if key.endswith(".bias") else (key, ".weight")
    number = re.search(r"(?<=\.)\d+(?=\.)", stem)
    pattern = re.sub(r"(?<=\.)\d+(?=\.)", "*", stem)
    named = f"a tensor for slot {pattern} in the dialect {dialect.container}/{dialect.model_type}"
    require(pattern in dialect.slots, named, f"tensors for {', '.join(dialect.slots)}", slot=key)
    return pattern, dialect.slots[pattern].replace("*", number.group() if number else "") + suffix


def transformed(tensor: torch.Tensor, transforms: Sequence[Transform], raw: Mapping[str, Any]) -> torch.Tensor:
    """A container's tensor as the slot wants it."""
    for step in transforms:
        if isinstance(step, Transpose):
            tensor = tensor.t()
        elif isinstance(step, AddConstant):
            tensor = tensor + step.value
        elif isinstance(step, SliceRows):
            size = len(tensor) // step.parts
            tensor = tensor[step.start * size : step.stop * size]
        elif isinstance(step, RotaryRows):
            whole = len(tensor) % (2 * raw[step.heads]) == 0
            require(whole, f"rows in pairs of {raw[step.heads]} heads, as {step.heads} says", f"{len(tensor)} rows")
            pairs = tensor.reshape(raw[step.heads], -1, 2, *tensor.shape[1:])
            tensor = pairs.transpose(1, 2).reshape(tensor.shape)
    return tensor


def bound(
    slots: Sequence[Slot], dialect: Dialect, tensors: Mapping[str, torch.Tensor], raw: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Slot key → its tensor in fp32, of the slot's shape. Raises `Broken` where there is none."""
    found = {}
    for slot in slots:
        pattern, name = source(dialect, slot.key)
        require(name in tensors, f"a tensor of the checkpoint for slot {slot.key}", f"{name}, which it doesn't have")
        found[slot.key] = transformed(tensors[name].float(), dialect.transforms.get(pattern, ()), raw)
        shape = tuple(found[slot.key].shape)
        require(shape == slot.shape, f"{slot.key} of the tensor's shape {shape}", slot.shape, tensor=name)
    return found


class Network:
    """An architecture with weights, lowered to the reference."""

    def __init__(
        self, architecture: Architecture, config: Any, weights: Mapping[str, torch.Tensor], dtypes: Dtypes = FP32
    ) -> None:
        layers = range(config.layers)
        self._packed: dict[str, Packed] = {key: Plain().pack(weight) for key, weight in weights.items()}
        target = Target(formats=dict.fromkeys(weights, Plain()), device=HostDevice(), dtypes=dtypes)
        self._lowering = Lowering(target)
        self._callables = [self._lowered(architecture.build(config, part)) for part in parts(config.layers)]
        self.states = {i: architecture.state(config, i) for i in layers}
        self._rotaries = [rotary for i in layers if (rotary := architecture.rotary(config, i)) is not None]

    def _lowered(self, description: Any) -> Any:
        handles = {
            (reader.name, slot.key): reader.kernel.prepare(slot, self._packed[slot.key], self._lowering.target)
            for slot, readers in self._lowering.readers(description).items()
            for reader in readers
        }
        return self._lowering.bind(description, handles)

    def logits(self, ids: torch.Tensor, steps: Sequence[int]) -> torch.Tensor:
        """``ids [n]`` → ``[n, vocab]``, computed in steps of the given numbers of tokens."""
        sequences, position, rows = Sequences(self, [len(ids)]), 0, []
        for count in steps:
            rows.append(sequences.step((0, position, ids[position : position + count])))
            position += count
        return torch.cat(rows)

    def compute(self, ids: torch.Tensor, batch: Batch, layers: Mapping[int, Any]) -> torch.Tensor:
        """One step through all parts."""
        embed, *blocks, head = self._callables
        with torch.inference_mode():
            hidden = embed(ids.int())
            for i, block in enumerate(blocks):
                hidden = block(hidden, batch, layers[i])
            return head(hidden)  # type: ignore[no-any-return]

    def state(self, pages: int, sequences: int) -> SequenceState:
        """Of all layers, in the compute dtype."""
        dtype = torch_dtype(self._lowering.target.dtypes.compute)
        return SequenceState(self.states, self._rotaries, pages=pages, sequences=sequences, dtype=dtype)


class Sequences:
    """Sequences 0, 1, … of at most the given numbers of tokens; their pages are dealt in turns, the last one first.

    ``change`` is what happens to each step's batch on its way to the network.
    """

    def __init__(
        self, network: Network, longest: Sequence[int], change: Callable[[Batch], Batch] = lambda batch: batch
    ) -> None:
        self._network, self._change = network, change
        self._owners = [i for i, tokens in enumerate(longest) for _ in range(-(-tokens // PAGE))]
        self.state = network.state(len(self._owners), len(longest))
        for sequence in range(len(longest)):
            self.open(sequence)

    def open(self, sequence: int) -> None:
        """Start it; what its pages held before stays in them."""
        self.state.open(sequence)
        for page in reversed([page for page, owner in enumerate(self._owners) if owner == sequence]):
            self.state.extend(sequence, page)

    def step(self, *pieces: Piece) -> torch.Tensor:
        """Logits ``[n, vocab]`` of all tokens of the step, in the order of the pieces."""
        batch = self.state.begin([Row(sequence, position, len(ids)) for sequence, position, ids in pieces])
        ids = torch.cat([ids for _, _, ids in pieces])
        return self._network.compute(ids, self._change(batch), self.state.layers)
