"""A whole model in one process with the reference kernel, bound by a dialect: for suites, from the public interfaces.

It shares no code with how core loads and runs models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from truecluster.nn import PAGE, Lowering, Row, SequenceState

from ._host import HostDevice, Plain


def parts(layers: int) -> list[Part]:
    """Embed, every block, head."""
    return [Embed(), *(Block(i) for i in range(layers)), Head()]


def source(dialect: Dialect, key: str) -> tuple[str, str]:
    """The dialect's pattern for a slot, and the container's name of its tensor."""
    stem, suffix = (key.removesuffix(".bias"), ".bias") if key.endswith(".bias") else (key, ".weight")
    number = re.search(r"(?<=\.)\d+(?=\.)", stem)
    pattern = re.sub(r"(?<=\.)\d+(?=\.)", "*", stem)
    assert pattern in dialect.slots, f"the dialect for {dialect.model_type} names no tensor for slot {pattern}"
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
            pairs = tensor.reshape(raw[step.heads], -1, 2, *tensor.shape[1:])
            tensor = pairs.transpose(1, 2).reshape(tensor.shape)
    return tensor


def bound(
    slots: Sequence[Slot], dialect: Dialect, tensors: Mapping[str, torch.Tensor], raw: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Slot key → its tensor in fp32. Asserts that there is one, of the slot's shape."""
    found = {}
    for slot in slots:
        pattern, name = source(dialect, slot.key)
        assert name in tensors, f"slot {slot.key} wants {name}, which the checkpoint doesn't have"
        found[slot.key] = transformed(tensors[name].float(), dialect.transforms.get(pattern, ()), raw)
        assert tuple(found[slot.key].shape) == slot.shape, f"slot {slot.key} wants {slot.shape}, {name} is different"
    return found


class Network:
    """An architecture with weights, lowered to the reference, fp32 throughout, for one sequence."""

    def __init__(self, architecture: Architecture, config: Any, weights: Mapping[str, torch.Tensor]) -> None:
        layers = range(config.layers)
        self._packed: dict[str, Packed] = {key: Plain().pack(weight) for key, weight in weights.items()}
        formats = dict.fromkeys(weights, Plain())
        target = Target(formats=formats, device=HostDevice(), dtypes=Dtypes(DType.FP32, DType.FP32))
        self._lowering = Lowering(target)
        self._callables = [self._lowered(architecture.build(config, part)) for part in parts(config.layers)]
        self._states = {i: architecture.state(config, i) for i in layers}
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
        embed, *blocks, head = self._callables
        pages = -(-len(ids) // PAGE)
        state = SequenceState(self._states, self._rotaries, pages=pages, sequences=1)
        state.open(0)
        for page in reversed(range(pages)):
            state.extend(0, page)
        rows, position = [], 0
        with torch.inference_mode():
            for count in steps:
                batch = state.begin([Row(0, position, count)])
                hidden = embed(ids[position : position + count].int())
                for i, block in enumerate(blocks):
                    hidden = block(hidden, batch, state.layers[i])
                rows.append(head(hidden))
                position += count
        return torch.cat(rows)
