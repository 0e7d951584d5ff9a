"""Recipes that are wrong in one way each, for the suite of recipes."""

from __future__ import annotations

import attrs
import pytest
from doubles import Double

from truecluster.api import PluginError, QuantizerSpec, Role
from truecluster.testing._contract import Installed
from truecluster.testing._host import Plain
from truecluster.testing.quantizer import QuantizerContract

VECTORS = (Role.NORM, Role.BIAS)
ROLES = {role.value: "keep" if role in VECTORS else "plain" for role in Role}
RECIPE = QuantizerSpec(name="plain", roles=ROLES, summary="Every matrix in fp32.")
FAMILY = QuantizerSpec(name="plain.*", roles={**ROLES, "linear": "plain.*"}, summary="Blocks in a member of plain.")


class Member(Plain):
    """Of a family with two, the second of which holds matrices alone."""

    def __init__(self, id):
        self.id = id

    @classmethod
    def from_id(cls, id):
        if id not in ("plain", "plain.matrix"):
            raise PluginError(f"there is no {id}; members are plain and plain.matrix")
        return cls(id)

    def wire_bytes(self, shape):
        if self.id == "plain.matrix" and len(shape) < 2:
            raise PluginError("plain.matrix holds matrices")
        return super().wire_bytes(shape)

    def pack(self, weight, stats=None):
        self.wire_bytes(tuple(weight.shape))
        return super().pack(weight)


class _Suite(QuantizerContract):
    recipe = RECIPE

    @pytest.fixture
    def installed(self):
        return Installed(self.recipe, None)

    @pytest.fixture
    def format(self):
        return Member.from_id


class SuiteOfPlain(_Suite):
    pass


class SuiteOfFamily(_Suite):
    recipe, members = FAMILY, ("plain.matrix",)


class SuiteOfUnexplained(_Suite):
    recipe = attrs.evolve(RECIPE, summary=" ")


class SuiteOfOpenRole(_Suite):
    recipe = attrs.evolve(RECIPE, roles={role: id for role, id in ROLES.items() if role != "bias"})


class SuiteOfUnknownRole(_Suite):
    recipe = attrs.evolve(RECIPE, roles={**ROLES, "lineal": "plain"})


class SuiteOfUnknownFormat(_Suite):
    recipe = attrs.evolve(RECIPE, roles={**ROLES, "head": "plain.g7"})


class SuiteOfPackedNorms(_Suite):
    recipe = attrs.evolve(RECIPE, roles={**ROLES, "norm": "plain.matrix"})


class SuiteOfUniformFamily(_Suite):
    recipe, members = attrs.evolve(FAMILY, roles=ROLES), ("plain.matrix",)


class SuiteWithoutMembers(_Suite):
    recipe = FAMILY


SUITE = QuantizerContract
RIGHT = [SuiteOfPlain, SuiteOfFamily]
DOUBLES = {
    "test_it_says_what_it_does": Double(SuiteOfUnexplained, "a summary of one line"),
    "test_every_role_has_a_format": Double(SuiteOfOpenRole, r"a format for each of \['bias', 'embedding', 'head'"),
    "test_every_format_exists": Double(
        SuiteOfUnknownFormat, r"an installed format\ncame: .*no plain\.g7.*\nrole: head\nformat: plain\.g7"
    ),
    "test_every_format_packs_what_its_role_has": Double(
        SuiteOfPackedNorms, r"\(896,\) to be packed\ncame: .*holds matrices.*\nrole: norm\nformat: plain\.matrix"
    ),
    "test_an_unknown_member_of_a_family_is_refused": Double(
        SuiteOfUniformFamily, r"PluginError\ncame: nothing was raised\nrecipe: plain\.no-such-member"
    ),
}


def test_a_role_that_does_not_exist_is_caught(verdict):
    caught = verdict(SuiteOfUnknownRole)
    assert list(caught) == ["test_every_role_has_a_format"]
    assert "'lineal'" in caught["test_every_role_has_a_format"]


def test_a_family_needs_members(verdict):
    name = "test_every_format_exists"
    assert "SuiteWithoutMembers must give members" in verdict(SuiteWithoutMembers, name)[name]
