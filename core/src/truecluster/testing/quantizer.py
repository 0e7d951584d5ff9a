"""The contract of recipes: pure data, but what it names must exist and fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import pytest
import torch

from truecluster._registry import recipes
from truecluster.api import CannotPack, Packed, PluginError, QuantizerSpec, Role, WeightFormat

from ._contract import Contract, Installed, registry
from ._missing import missing
from .rules import refusal, require

KEEP = "keep"
SHAPES: Mapping[Role, Sequence[tuple[int, ...]]] = {
    Role.LINEAR: [(896, 896), (128, 896), (896, 4864), (576, 1536), (320, 960), (1, 72)],
    Role.HEAD: [(151936, 896), (49152, 576), (32003, 4096)],
    Role.EMBEDDING: [(151936, 896), (49152, 576), (32003, 4096)],
    Role.NORM: [(896,), (576,), (64,)],
    Role.BIAS: [(896,), (128,), (1,)],
}
"""What real models have: ``[out, in]`` with few key heads, vocabularies of odd size, widths of any factor."""
PACKED_ROWS = 3
"""So many rows of a matrix are really packed; the rest is counted only."""


class QuantizerContract(Contract):
    """For a family (``int4.*``) give ``members``."""

    KIND = "quantizer"
    members: ClassVar[Sequence[str]] = ()
    """Of a family: names of some recipes (``int4.g128``)."""

    @pytest.fixture
    def spec(self, installed: Installed) -> QuantizerSpec:
        """The recipe under test."""
        assert isinstance(installed.spec, QuantizerSpec)
        return installed.spec

    @pytest.fixture
    def format(self) -> Callable[[str], WeightFormat]:
        """What finds a format by its id, among all that are installed."""
        return registry().format

    @pytest.fixture
    def chosen(self, spec: QuantizerSpec) -> list[QuantizerSpec]:
        """The recipes that a user gets: the one, or a family's members."""
        if not spec.name.endswith(".*"):
            return [spec]
        if not self.members:
            raise missing(self, "members", f"names of some recipes of the family {spec.name}")
        return [recipes.member(spec, name) for name in self.members]

    def test_it_says_what_it_does(self, spec: QuantizerSpec) -> None:
        """A recipe has a summary of one line, which `tc plugin list` shows."""
        require(bool(spec.summary.strip()) and "\n" not in spec.summary, "a summary of one line", spec.summary)

    def test_every_role_has_a_format(self, spec: QuantizerSpec) -> None:
        """A recipe gives each `Role` a format or ``keep``, and names nothing that is no role."""
        roles = {role.value for role in Role}
        require(roles <= set(spec.roles), f"a format for each of {sorted(roles)}", sorted(spec.roles))
        require(set(spec.roles) <= roles, f"no role but {sorted(roles)}", sorted(spec.roles))

    def test_every_format_exists(self, chosen: list[QuantizerSpec], format: Callable[[str], WeightFormat]) -> None:
        """Each format that a recipe names is one that an installed plugin offers, with that member."""
        for recipe in chosen:
            for role, id in named(recipe):
                problem = found(format, id)
                require(not isinstance(problem, PluginError), "an installed format", problem, role=role, format=id)

    def test_every_format_packs_what_its_role_has(
        self, chosen: list[QuantizerSpec], format: Callable[[str], WeightFormat]
    ) -> None:
        """A role's format packs the tensors that real models have in it: vectors for norms and biases, any width."""
        for recipe in chosen:
            for role, id in named(recipe):
                member = found(format, id)
                if isinstance(member, WeightFormat):
                    for shape in SHAPES.get(Role(role), []) if role in set(Role) else []:
                        self._require_packs(member, shape, role)

    def _require_packs(self, format: WeightFormat, shape: tuple[int, ...], role: str) -> None:
        few = shape if len(shape) == 1 else (min(shape[0], PACKED_ROWS), shape[1])
        try:
            nbytes, packed = format.wire_bytes(shape), format.pack(torch.ones(few))
        except (PluginError, CannotPack) as error:
            require(False, f"{shape} to be packed", error, role=role, format=format.id)
        else:
            holds = nbytes > 0 and isinstance(packed, Packed) and packed.shape == few
            require(holds, f"a Packed of shape {few}", packed, role=role, format=format.id)

    def test_an_unknown_member_of_a_family_is_refused(
        self, spec: QuantizerSpec, format: Callable[[str], WeightFormat]
    ) -> None:
        """In a family ``*`` stands in some role's format, which refuses with `PluginError` a member it doesn't have."""
        if not spec.name.endswith(".*"):
            pytest.skip("the recipe is no family")
        unknown = recipes.member(spec, spec.name.replace("*", "no-such-member"))
        with refusal(PluginError, recipe=unknown.name, roles=dict(unknown.roles)):
            for _, id in named(unknown):
                format(id)


def named(recipe: QuantizerSpec) -> list[tuple[str, str]]:
    """Role and format of each role that isn't kept as it is."""
    return [(role, id) for role, id in recipe.roles.items() if id != KEEP]


def found(format: Callable[[str], WeightFormat], id: str) -> WeightFormat | PluginError:
    """The format, or why there is none."""
    try:
        return format(id)
    except PluginError as error:
        return error
