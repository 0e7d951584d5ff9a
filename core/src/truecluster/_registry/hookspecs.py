"""The hooks: seven that take no argument and yield specs, and one that observes."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from truecluster.api import (
    ArchitectureSpec,
    CheckpointSpec,
    DeviceSpec,
    Event,
    FormatSpec,
    KernelSpec,
    PlannerSpec,
    QuantizerSpec,
    TransportSpec,
)

hookspec = pluggy.HookspecMarker("truecluster")


@hookspec
def truecluster_architectures() -> Iterable[ArchitectureSpec]:
    """Model families."""
    raise NotImplementedError


@hookspec
def truecluster_quantizers() -> Iterable[QuantizerSpec | FormatSpec]:
    """Recipes, and the formats that they name."""
    raise NotImplementedError


@hookspec
def truecluster_transports() -> Iterable[TransportSpec]:
    """Streams for control and weights, edges for steps."""
    raise NotImplementedError


@hookspec
def truecluster_planners() -> Iterable[PlannerSpec]:
    """Ways to split a model over nodes."""
    raise NotImplementedError


@hookspec
def truecluster_devices() -> Iterable[DeviceSpec]:
    """Kinds of device."""
    raise NotImplementedError


@hookspec
def truecluster_checkpoints() -> Iterable[CheckpointSpec]:
    """Where models come from."""
    raise NotImplementedError


@hookspec
def truecluster_kernels() -> Iterable[KernelSpec]:
    """Fast implementations of descriptions."""
    raise NotImplementedError


@hookspec
def truecluster_event(event: Event) -> None:
    """Hear what happens in a coordinator's cluster."""
    raise NotImplementedError
