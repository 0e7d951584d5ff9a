"""What each kind of offer is: the hook that yields it, its spec class, and what its target must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from truecluster.api import (
    Architecture,
    ArchitectureSpec,
    CheckpointSource,
    CheckpointSpec,
    DeviceBackend,
    DeviceSpec,
    EdgeTransport,
    FormatSpec,
    Kernel,
    KernelSpec,
    Planner,
    PlannerSpec,
    QuantizerSpec,
    Spec,
    StreamTransport,
    TransportSpec,
    WeightFormat,
)

AnySpec = Spec | QuantizerSpec
Bases = Callable[[AnySpec], tuple[type, ...]]


@attrs.frozen
class Kind:
    """``bases`` are the classes that the target of a spec must all derive from."""

    hook: str
    spec: type[AnySpec]
    bases: Bases


def _always(*bases: type) -> Bases:
    return lambda spec: bases


def _as_offered(spec: AnySpec) -> tuple[type, ...]:
    assert isinstance(spec, TransportSpec)
    return (StreamTransport,) * spec.streams + (EdgeTransport,) * spec.edges


KINDS: Mapping[str, Kind] = {
    "architecture": Kind("truecluster_architectures", ArchitectureSpec, _always(Architecture)),
    "quantizer": Kind("truecluster_quantizers", QuantizerSpec, _always()),
    "format": Kind("truecluster_quantizers", FormatSpec, _always(WeightFormat)),
    "transport": Kind("truecluster_transports", TransportSpec, _as_offered),
    "planner": Kind("truecluster_planners", PlannerSpec, _always(Planner)),
    "device": Kind("truecluster_devices", DeviceSpec, _always(DeviceBackend)),
    "checkpoint": Kind("truecluster_checkpoints", CheckpointSpec, _always(CheckpointSource)),
    "kernel": Kind("truecluster_kernels", KernelSpec, _always(Kernel)),
}
"""Kind → what it is, in the order in which they are listed."""
