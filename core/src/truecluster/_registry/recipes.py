"""Recipes by name, and the families that stand for many."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from truecluster.api import QuantizerSpec


def family_of(name: str, recipes: Iterable[str]) -> str | None:
    """The family (``int4.*``) that ``name`` (``int4.g128``) is a member of; the longest where several fit."""
    fitting = [r for r in recipes if r.endswith(".*") and name.startswith(r[:-1]) and len(name) >= len(r)]
    return max(fitting, key=len, default=None)


def member(family: QuantizerSpec, name: str) -> QuantizerSpec:
    """The recipe ``name`` of ``family``: ``*`` in its format ids stands for the rest of the name."""
    rest = name[len(family.name) - 1 :]
    return attrs.evolve(family, name=name, roles={role: id.replace("*", rest) for role, id in family.roles.items()})
