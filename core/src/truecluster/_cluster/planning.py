"""Asking a planner, and checking what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from truecluster._plan import validate
from truecluster._registry import Registry
from truecluster.api import Limits, ModelProfile, NodeProfile, Placement, Planner, PluginError, TrueClusterError


def make_planner(registry: Registry, name: str, options: Mapping[str, str]) -> Planner:
    """Raises `PluginError` where the planner doesn't take the options."""
    planner: Planner = registry.make("planner", name, options)
    return planner


def checked_plan(
    planner: Planner, name: str, model: ModelProfile, nodes: Sequence[NodeProfile], limits: Limits
) -> list[Placement]:
    """Ask the planner, and check its answer. Raises `PlanError`."""
    try:
        placements = list(planner.plan(model, nodes, limits))
    except TrueClusterError:
        raise
    except Exception as error:
        raise PluginError(f"planner {name!r} failed: {type(error).__name__}: {error}; choose another") from error
    validate(placements, model, nodes, limits, planner=name)
    return placements
