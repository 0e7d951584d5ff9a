"""From packed units to a stage that can run: choose kernels, prepare one tensor at a time, bind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from truecluster._registry import Registry
from truecluster._weights.catalog import Unit
from truecluster.api import (
    Architecture,
    DeviceContext,
    DType,
    Dtypes,
    ModelConfig,
    OutOfMemory,
    Packed,
    Rotary,
    Span,
    Target,
)
from truecluster.nn import PAGE, REFERENCE, Lowering, RankedKernel, SequenceState, torch_dtype

from .sampling import SampleTable
from .stage import Stage, StageShape

LOG = logging.getLogger(__name__)

ReadUnit = Callable[[Unit], Packed]


@attrs.frozen(kw_only=True, eq=False)
class StageFacts:
    """Everything that a stage is made from, besides its weights. ``inbound`` and ``outbound``: see `StageShape`."""

    span: Span
    architecture: Architecture
    config: ModelConfig
    dtypes: Dtypes
    inbound: DType
    outbound: DType
    units: Sequence[Unit]
    pages: int
    sequences: int
    max_tokens: int
    step_timeout: float


class HandleCache:
    """What kernels made of units, kept across runs and shared by the stages of a process."""

    def __init__(self) -> None:
        self._handles: dict[tuple[str, str, Dtypes, str, str], Any] = {}

    def get(self, kernel: RankedKernel, unit: Unit, target: Target, make: Callable[[], Any]) -> Any:
        """The handle, made if it isn't there; one that was made for other dtypes or another device is another."""
        key = (kernel.name, target.device.id, target.dtypes, unit.slot.key, unit.digest)
        if key not in self._handles:
            self._handles[key] = make()
        return self._handles[key]

    def held(self, device: str, dtypes: Dtypes) -> set[str]:
        """Digests of the units that there are handles of, for that device and those dtypes."""
        return {key[-1] for key in self._handles if key[1:3] == (device, dtypes)}

    def keep_only(self, digests: set[str], dtypes: Dtypes) -> None:
        """Let go of handles of other units, and of those made for other dtypes."""
        kept = {key: handle for key, handle in self._handles.items() if key[2] == dtypes and key[-1] in digests}
        self._handles = kept


def build_stage(
    facts: StageFacts,
    registry: Registry,
    device: DeviceContext,
    read: ReadUnit,
    handles: HandleCache,
    progress: Callable[[Unit], None] = lambda unit: None,
) -> Stage:
    """Load and lower. ``read`` gives the packed bytes of a unit; ``progress`` is called after each one.

    Raises `OutOfMemory` with what the stage needs, and `CheckpointError` naming a weight that its dtype can't hold.
    """
    try:
        with device.scope(), device.turn():
            stage = _build(facts, registry, device, read, handles, progress)
            device.synchronize()
    except OutOfMemory as error:
        raise OutOfMemory(f"{facts.span} needs {needs(facts)}, but {error}") from error
    return stage


def _build(
    facts: StageFacts,
    registry: Registry,
    device: DeviceContext,
    read: ReadUnit,
    handles: HandleCache,
    progress: Callable[[Unit], None],
) -> Stage:
    units = {unit.slot.key: unit for unit in facts.units}
    formats = {key: registry.format(unit.format) for key, unit in units.items()}
    lowering = Lowering(Target(formats=formats, device=device, dtypes=facts.dtypes), available_kernels(registry))
    parts = [facts.architecture.build(facts.config, part) for part in facts.span.parts()]
    prepared, slow = {}, set()
    for part in parts:
        for slot, kernels in lowering.readers(part).items():
            unit = units[slot.key]
            if REFERENCE in kernels and len(slot.shape) > 1:
                slow.add(unit.format)
            for kernel in kernels:
                make = partial(_prepare, kernel, unit, read, lowering.target)
                prepared[kernel.name, slot.key] = handles.get(kernel, unit, lowering.target, make)
            progress(unit)
    if slow and device.kind == "cpu":
        _tell_slow(facts.span, slow, registry)
    bound = [lowering.bind(part, prepared) for part in parts]
    return Stage(shape_of(facts), bound, sequence_state(facts, device), device, SampleTable(facts.step_timeout))


def needs(facts: StageFacts) -> str:
    """What a stage keeps in memory, for a reader."""
    weights = sum({unit.digest: unit.nbytes for unit in facts.units}.values())
    return (
        f"{weights / 1e6:.1f} MB for weights, and state of {facts.pages * PAGE} tokens in {facts.dtypes.compute.value}"
    )


def _tell_slow(span: Span, formats: set[str], registry: Registry) -> None:
    """The reference is right but slow on a CPU; what would be faster is often only not installed."""
    reasons = "; ".join(f"{name}: {reason}" for name, reason in registry.kernels().unavailable.items())
    LOG.warning(
        "%s: no kernel of this CPU takes %s, so the reference does, several times slower; %s",
        span,
        ", ".join(sorted(formats)),
        reasons or "--quant int4, int8 or fp16 is faster here",
    )


def _prepare(kernel: RankedKernel, unit: Unit, read: ReadUnit, target: Target) -> Any:
    return kernel.kernel.prepare(unit.slot, read(unit), target)


def available_kernels(registry: Registry) -> list[RankedKernel]:
    """The kernels that this machine can run."""
    return [RankedKernel(name, rank, kernel) for name, rank, kernel in registry.kernels().available]


def shape_of(facts: StageFacts) -> StageShape:
    return StageShape(
        span=facts.span,
        layers=facts.config.layers,
        hidden=facts.config.hidden,
        vocab=facts.config.vocab,
        context=facts.config.context,
        residual=facts.dtypes.residual,
        inbound=facts.inbound,
        outbound=facts.outbound,
        max_tokens=facts.max_tokens,
        sequences=facts.sequences,
    )


def sequence_state(facts: StageFacts, device: DeviceContext) -> SequenceState:
    """The cache of the span's layers."""
    layers = range(facts.span.start, facts.span.stop)
    states = {i: facts.architecture.state(facts.config, i) for i in layers}
    rotaries = [r for i in layers if isinstance(r := facts.architecture.rotary(facts.config, i), Rotary)]
    return SequenceState(
        states,
        rotaries,
        pages=facts.pages,
        sequences=facts.sequences,
        device=device.id,
        dtype=torch_dtype(facts.dtypes.compute),
    )
