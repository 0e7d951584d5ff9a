"""Asking a planner, checking what it answers, and giving the run as much state as fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

import attrs

from truecluster._plan import Fitted, Measured, Room, Share, fit, kind_of, shares, validate
from truecluster._registry import Registry
from truecluster.api import (
    COORDINATOR,
    DType,
    Limits,
    ModelProfile,
    NodeProfile,
    Placement,
    PlanError,
    Planner,
    PluginError,
    TrueClusterError,
)

from .memory import NodeFacts, profiles


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


@attrs.frozen(kw_only=True)
class Planned:
    """A plan, and what was known of the nodes, the coordinator among them, when it was made."""

    fitted: Fitted
    nodes: tuple[NodeProfile, ...]

    @property
    def shares(self) -> list[Share]:
        """What each node's memory is taken by."""
        return shares(self.fitted.placements, self.fitted.model, self.nodes)


@attrs.frozen(kw_only=True, eq=False)
class Planning:
    """What stays the same from plan to plan. ``own`` is the coordinator's machine."""

    planner: Planner
    name: str
    measured: Measured
    limits: Limits
    room: Room
    own: NodeFacts

    def plan(self, nodes: Sequence[NodeFacts], computes: Sequence[DType]) -> Planned:
        """Over ``nodes``; ``computes`` has what each computes in. Raises `PlanError` with the missing bytes."""
        measured = self._measured(nodes, computes)
        ends = self._ends(measured.stateless)
        own = profiles([self.own], self.room)[0]
        if own.memory is not None and ends > own.memory:
            raise PlanError(
                f"the coordinator would need {ends:,} bytes for embed and head of {measured.stateless.name} and has "
                f"{own.memory:,}: put them on the nodes with --head last-stage, or take a smaller --quant"
            )
        there = profiles(nodes, self.room, {self.own.place: ends})
        ask = partial(checked_plan, self.planner, self.name, nodes=there, limits=self.limits)
        return Planned(fitted=fit(measured, self.room, ask), nodes=(*there, own))

    def _measured(self, nodes: Sequence[NodeFacts], computes: Sequence[DType]) -> Measured:
        """State in the widest that a node computes in, and what attention takes where it takes most."""
        compute = reduce(DType.wider, computes) if computes else DType.FP32
        unlike = any(kind_of(node.device) != kind_of(self.own.device) for node in nodes)
        attention = self.measured.attention_elsewhere if unlike else self.measured.attention
        return attrs.evolve(self.measured, compute=compute, attention=attention)

    def _ends(self, model: ModelProfile) -> int:
        """Bytes of the stages that the coordinator hosts."""
        if self.limits.head != COORDINATOR:
            return 0
        return model.ends(embed=True, head=True) + 2 * model.workspace
