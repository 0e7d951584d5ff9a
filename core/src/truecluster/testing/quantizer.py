"""The contract of recipes: pure data, but what it names must exist and fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import ClassVar

import pytest
import torch

from truecluster.api import FormatSpec, Packed, QuantizerSpec, Role, WeightFormat

from ._missing import missing

KEEP = "keep"
VECTORS = (Role.NORM, Role.BIAS)


class QuantizerContract:
    """Give ``offers``: what the plugin's hook yields, with the format specs that its recipes need from elsewhere."""

    members: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Family (``int4.*``) → some members to try (``int4.g128``)."""

    @pytest.fixture
    def offers(self) -> Sequence[QuantizerSpec | FormatSpec]:
        """The specs under test."""
        raise missing(self, "the fixture 'offers'", "list(truecluster_quantizers())")

    @pytest.fixture
    def recipes(self, offers: Sequence[QuantizerSpec | FormatSpec]) -> list[dict[str, str]]:
        """The roles of every recipe, a family's once for each member to try."""
        found = []
        for spec in offers:
            if isinstance(spec, QuantizerSpec):
                for name in self.names(spec):
                    rest = name[len(spec.name) - 1 :]
                    found.append({role: id.replace("*", rest) for role, id in spec.roles.items()})
        return found

    def names(self, spec: QuantizerSpec) -> Sequence[str]:
        """The names under which a recipe is asked for."""
        if not spec.name.endswith(".*"):
            return [spec.name]
        if spec.name not in self.members:
            raise missing(self, f"members[{spec.name!r}]", "names of some members to try")
        return self.members[spec.name]

    def test_names_are_told_apart_and_explained(self, offers: Sequence[QuantizerSpec | FormatSpec]) -> None:
        for kind in (QuantizerSpec, FormatSpec):
            names = [spec.name for spec in offers if isinstance(spec, kind)]
            assert len(set(names)) == len(names)
        assert all(spec.summary for spec in offers)

    def test_every_role_of_a_recipe_exists_and_none_is_left_open(self, recipes: list[dict[str, str]]) -> None:
        assert recipes
        for roles in recipes:
            assert set(roles) == {role.value for role in Role}

    def test_every_format_of_a_recipe_exists(
        self, offers: Sequence[QuantizerSpec | FormatSpec], recipes: list[dict[str, str]]
    ) -> None:
        for roles in recipes:
            for id in set(roles.values()) - {KEEP}:
                assert id.startswith(resolve(offers, id).id.partition(".")[0])

    def test_every_format_packs_what_its_role_has(
        self, offers: Sequence[QuantizerSpec | FormatSpec], recipes: list[dict[str, str]]
    ) -> None:
        for roles in recipes:
            for role, id in roles.items():
                if id != KEEP:
                    shape = (48,) if Role(role) in VECTORS else (5, 48)
                    packed = resolve(offers, id).pack(torch.ones(shape))
                    assert isinstance(packed, Packed)
                    assert packed.shape == shape


def resolve(offers: Sequence[QuantizerSpec | FormatSpec], id: str) -> WeightFormat:
    """The format that ``id`` names, of the family that is offered."""
    family = id.partition(".")[0]
    targets = [spec.target for spec in offers if isinstance(spec, FormatSpec) and spec.name == family]
    assert targets, f"no format of family {family!r} is offered, which a recipe needs for {id!r}"
    module, _, name = targets[0].partition(":")
    found = getattr(import_module(module), name).from_id(id)
    assert isinstance(found, WeightFormat)
    return found
