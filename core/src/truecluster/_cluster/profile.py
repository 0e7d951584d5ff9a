"""What a planner is told of the model: bytes to send, to hold, and of state, part by part."""

from __future__ import annotations

import math
from collections.abc import Callable

from truecluster._pipeline.build import available_kernels
from truecluster._plan import Measured
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
    Slot,
    State,
    Target,
)
from truecluster.nn import PAGE, REFERENCE, Attend, Lowering, attend_bytes

from .model import ClusterModel

STEP_WIDTHS = 16
"""What a stage holds of a step at once, in hidden widths per token: hidden, norm, q/k/v, gate/up, and copies."""
LOGIT_COPIES = 4
"""What a head holds at once of a sequence's logits: as they come, scaled, sorted, and their sums."""
COUNTED = Dtypes(DType.FP32, DType.FP32)
"""The widest that a node may compute in, and keep its keys and values in."""


def measure(
    model: ClusterModel, registry: Registry, device: DeviceContext, max_tokens: int, sequences: int
) -> Measured:
    """For steps of ``max_tokens`` and so many sequences at once, on nodes with the coordinator's kernels."""
    bound, config = model.bound, model.bound.config
    formats = {key: model.catalog.format(slot) for key, slot in bound.slots.items()}
    lowering = Lowering(Target(formats=formats, device=device, dtypes=COUNTED), available_kernels(registry))
    parts = parts_of(config)
    states = [bound.architecture.state(config, p.index) if isinstance(p, Block) else None for p in parts]
    step, logits = STEP_WIDTHS * max_tokens * config.hidden, LOGIT_COPIES * sequences * config.vocab
    return Measured(
        stateless=ModelProfile(
            name=model.name,
            parts=tuple(_part(part, model, lowering) for part in parts),
            tied=config.tied,
            workspace=max(step, logits) * COUNTED.compute.itemsize,
        ),
        page_elements=tuple(map(_page_elements, states)),
        sequence_bytes=tuple(map(_sequence_bytes, states)),
        compute=COUNTED.compute,
        context=config.context,
        page_tokens=PAGE,
        attention=_attention(model, lowering, max_tokens),
        attention_elsewhere=_attention(model, Lowering(lowering.target), max_tokens),
    )


def _attention(model: ClusterModel, lowering: Lowering, max_tokens: int) -> Callable[[int], int]:
    """What the reference takes where it attends, which holds scores; tokens of context → bytes."""
    bound = model.bound
    parts = [bound.architecture.build(bound.config, part) for part in parts_of(bound.config)]
    taken = [taker for part in parts for taker in lowering.takers(part)]
    attends = {description for description, kernel in taken if isinstance(description, Attend) and kernel is REFERENCE}
    return lambda context: max((attend_bytes(attend, max_tokens, context) for attend in attends), default=0)


def _part(part: Part, model: ClusterModel, lowering: Lowering) -> PartProfile:
    bound = model.bound
    readers = lowering.readers(bound.architecture.build(bound.config, part))
    return PartProfile(
        part=part,
        wire=sum(model.catalog.nbytes(slot) for slot in readers),
        resident=sum(_resident(slot, k.kernel, lowering) for slot, kernels in readers.items() for k in kernels),
    )


def _resident(slot: Slot, kernel: object, lowering: Lowering) -> int:
    return kernel.resident_bytes(lowering.target.formats[slot.key], slot.shape)  # type: ignore[attr-defined,no-any-return]


def _elements(state: State) -> int:
    return sum(math.prod(shape) for shape in state.arrays.values())


def _page_elements(state: State | None) -> int:
    return PAGE * _elements(state) if isinstance(state, Paged) else 0


def _sequence_bytes(state: State | None) -> int:
    """State of fixed size is fp32, and kept once more for every snapshot."""
    if state is None or isinstance(state, Paged):
        return 0
    return (1 + state.snapshots) * _elements(state) * DType.FP32.itemsize
