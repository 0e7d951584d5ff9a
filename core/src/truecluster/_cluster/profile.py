"""What a planner is told of the model: bytes to send, to hold, and of state, part by part."""

from __future__ import annotations

import math

import attrs

from truecluster._pipeline.build import available_kernels
from truecluster._registry import Registry
from truecluster._weights.binding import parts_of
from truecluster.api import (
    Block,
    DeviceContext,
    DType,
    Dtypes,
    ModelProfile,
    Paged,
    Part,
    PartProfile,
    Recurrent,
    Slot,
    State,
    Target,
)
from truecluster.nn import PAGE, Lowering

from .model import ClusterModel

WORKSPACE_TOKENS_WIDTHS = 16
"""Rows of a step that a stage holds at once, in hidden widths per token: hidden, norm, q/k/v, gate/up, and copies."""


SEQUENCES = 8
"""Sequences at once."""
TOKENS_EACH = 1024
"""Tokens of state per sequence, beside one whole context."""
COUNTED = Dtypes(DType.FP32, DType.FP32)
"""The widest that a node may compute in, and keep its keys and values in."""


@attrs.frozen(kw_only=True)
class StateSize:
    """How much state every stage holds: pages of `PAGE` tokens, and sequences at once."""

    pages: int
    sequences: int


def measure(
    model: ClusterModel, registry: Registry, device: DeviceContext, max_tokens: int
) -> tuple[ModelProfile, StateSize]:
    """The profile and the size of the state, with the defaults of a run."""
    config = model.bound.config
    size = state_size(config.context, SEQUENCES, TOKENS_EACH)
    return profile(model, registry, device, COUNTED, size, max_tokens), size


def profile(
    model: ClusterModel, registry: Registry, device: DeviceContext, dtypes: Dtypes, size: StateSize, max_tokens: int
) -> ModelProfile:
    """Counted as for nodes with the coordinator's kernels."""
    bound = model.bound
    formats = {key: model.catalog.format(slot) for key, slot in bound.slots.items()}
    lowering = Lowering(Target(formats=formats, device=device, dtypes=dtypes), available_kernels(registry))
    return ModelProfile(
        name=model.name,
        parts=tuple(_part(part, model, lowering, size) for part in parts_of(bound.config)),
        tied=bound.config.tied,
        workspace=WORKSPACE_TOKENS_WIDTHS * max_tokens * bound.config.hidden * 4,
    )


def _part(part: Part, model: ClusterModel, lowering: Lowering, size: StateSize) -> PartProfile:
    bound = model.bound
    readers = lowering.readers(bound.architecture.build(bound.config, part))
    state = bound.architecture.state(bound.config, part.index) if isinstance(part, Block) else None
    itemsize = lowering.target.dtypes.compute.itemsize
    return PartProfile(
        part=part,
        wire=sum(model.catalog.nbytes(slot) for slot in readers),
        resident=sum(_resident(slot, k.kernel, lowering) for slot, kernels in readers.items() for k in kernels),
        state=0 if state is None else state_bytes(state, size, itemsize),
    )


def _resident(slot: Slot, kernel: object, lowering: Lowering) -> int:
    return kernel.resident_bytes(lowering.target.formats[slot.key], slot.shape)  # type: ignore[attr-defined,no-any-return]


def state_bytes(state: State, size: StateSize, itemsize: int) -> int:
    """Of one layer."""
    elements = sum(math.prod(shape) for shape in state.arrays.values())
    if isinstance(state, Paged):
        return size.pages * PAGE * elements * itemsize
    assert isinstance(state, Recurrent)
    return size.sequences * (1 + state.snapshots) * elements * 4


def state_size(context: int, sequences: int, tokens_each: int) -> StateSize:
    """Room for one sequence of the whole context, and for ``sequences`` of ``tokens_each`` beside it."""
    return StateSize(pages=-(-context // PAGE) + sequences * -(-min(tokens_each, context) // PAGE), sequences=sequences)
