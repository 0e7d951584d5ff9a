"""The seven hooks. None takes an argument; each yields specs."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from truecluster.api import (
    ArchitectureSpec,
    CheckpointSpec,
    DeviceSpec,
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
