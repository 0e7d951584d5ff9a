"""A plan with as much sequence state as fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import attrs

from truecluster.api import ModelProfile, Placement, PlanError

from .room import Measured, Room, StateSize, least_context, wanted_size

Plan = Callable[[ModelProfile], Sequence[Placement]]
"""Raises `PlanError` where the model doesn't fit."""


@attrs.frozen(kw_only=True)
class Fitted:
    """Placements that fit with state of that ``size``; ``wanted`` is what was aimed at."""

    placements: tuple[Placement, ...]
    model: ModelProfile
    size: StateSize
    wanted: StateSize

    @property
    def reduction(self) -> str | None:
        """The line for the user where there is less state than was aimed at."""
        if self.size.context < self.wanted.context:
            return (
                f"context reduced from {self.wanted.context:,} to {self.size.context:,} tokens, shared by all "
                "sequences: state of more doesn't fit the memory of the nodes"
            )
        if self.size.pages < self.wanted.pages:
            share = self.size.pages / self.wanted.pages
            return f"state reduced to {share:.0%} for all sequences together: more doesn't fit the memory of the nodes"
        return None


def fit(measured: Measured, room: Room, plan: Plan) -> Fitted:
    """Plan with all of the wanted state, else with the most that fits, to two percent.

    Raises the `PlanError` of the least that makes sense: of the context that was typed, or of a small one.
    """
    wanted = wanted_size(measured, room)
    tokens = least_context(measured, room)
    least = min(wanted.pages, measured.pages(tokens))

    def attempt(pages: int) -> Fitted:
        size = wanted.of(pages)
        model = measured.sized(size)
        return Fitted(placements=tuple(plan(model)), model=model, size=size, wanted=wanted)

    with suppress(PlanError):
        return attempt(wanted.pages)
    try:
        return _most(attempt, attempt(least), wanted.pages)
    except PlanError as error:
        hint = _hint(measured, room, plan)
        raise PlanError(f"with {tokens:,} tokens of context, {error}{hint}") from None


def _hint(measured: Measured, room: Room, plan: Plan) -> str:
    """The context that would fit instead of the one that was typed."""
    if room.context is None:
        return ""
    try:
        most = fit(measured, attrs.evolve(room, context=None), plan).size.context
    except PlanError:
        return ""
    return f"; --context {most} fits"


def _most(attempt: Callable[[int], Fitted], fitting: Fitted, too_many: int) -> Fitted:
    """Halve the gap between pages that fit and pages that don't."""
    while too_many - fitting.size.pages > max(1, fitting.size.pages // 50):
        middle = (fitting.size.pages + too_many) // 2
        try:
            fitting = attempt(middle)
        except PlanError:
            too_many = middle
    return fitting
