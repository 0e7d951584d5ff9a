"""From packed units to a stage that can run: choose kernels, prepare one tensor at a time, bind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from truecluster._registry import Registry
from truecluster._weights.catalog import Unit
from truecluster.api import Architecture, DeviceContext, DType, Dtypes, ModelConfig, Packed, Rotary, Span, Target
from truecluster.nn import Lowering, RankedKernel, SequenceState, torch_dtype

from .stage import SampleTable, Stage, StageShape

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
        self._handles: dict[tuple[str, str, str, str], Any] = {}

    def get(self, kernel: RankedKernel, unit: Unit, device: str, make: Callable[[], Any]) -> Any:
        """The handle, made if it isn't there."""
        key = (kernel.name, device, unit.slot.key, unit.digest)
        if key not in self._handles:
            self._handles[key] = make()
        return self._handles[key]

    def __contains__(self, digest: object) -> bool:
        return any(key[3] == digest for key in self._handles)

    def keep_only(self, digests: set[str]) -> None:
        """Let go of handles of other units."""
        self._handles = {key: handle for key, handle in self._handles.items() if key[3] in digests}


def build_stage(
    facts: StageFacts,
    registry: Registry,
    device: DeviceContext,
    read: ReadUnit,
    handles: HandleCache,
    progress: Callable[[Unit], None] = lambda unit: None,
) -> Stage:
    """Load and lower. ``read`` gives the packed bytes of a unit; ``progress`` is called after each one."""
    units = {unit.slot.key: unit for unit in facts.units}
    formats = {key: registry.format(unit.format) for key, unit in units.items()}
    lowering = Lowering(Target(formats=formats, device=device, dtypes=facts.dtypes), available_kernels(registry))
    parts = [facts.architecture.build(facts.config, part) for part in facts.span.parts()]
    prepared = {}
    for part in parts:
        for slot, kernels in lowering.readers(part).items():
            unit = units[slot.key]
            for kernel in kernels:
                make = partial(_prepare, kernel, unit, read, lowering.target)
                prepared[kernel.name, slot.key] = handles.get(kernel, unit, device.id, make)
            progress(unit)
    bound = [lowering.bind(part, prepared) for part in parts]
    return Stage(shape_of(facts), bound, sequence_state(facts, device), device, SampleTable(facts.step_timeout))


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
