"""The suite of recipes catches recipes that are wrong."""

from __future__ import annotations

import attrs
import pytest

from truecluster.api import FormatSpec, QuantizerSpec, Role
from truecluster.testing._host import Plain
from truecluster.testing.quantizer import QuantizerContract

FORMAT = FormatSpec(name="plain", target=f"{Plain.__module__}:Plain", summary="fp32.")
ROLES = {role.value: "keep" if role in (Role.NORM, Role.BIAS) else "plain" for role in Role}
RECIPE = QuantizerSpec(name="plain", roles=ROLES, summary="Every matrix in fp32.")


class _Suite(QuantizerContract):
    recipe = RECIPE

    @pytest.fixture
    def offers(self):
        return [FORMAT, self.recipe]


class SuiteOfPlain(_Suite):
    pass


class SuiteOfUnknownFormat(_Suite):
    recipe = attrs.evolve(RECIPE, roles={**ROLES, "linear": "int3"})


class SuiteOfUnknownMember(_Suite):
    recipe = attrs.evolve(RECIPE, roles={**ROLES, "linear": "plain.g7"})


class SuiteOfUnknownRole(_Suite):
    recipe = attrs.evolve(RECIPE, roles={**ROLES, "lineal": "plain"})


class SuiteOfOpenRole(_Suite):
    recipe = attrs.evolve(RECIPE, roles={"linear": "plain"})


def test_a_right_recipe_passes(failures):
    assert failures(SuiteOfPlain) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (SuiteOfUnknownFormat, "test_every_format_of_a_recipe_exists"),
        (SuiteOfUnknownMember, "test_every_format_of_a_recipe_exists"),
        (SuiteOfUnknownRole, "test_every_role_of_a_recipe_exists_and_none_is_left_open"),
        (SuiteOfOpenRole, "test_every_role_of_a_recipe_exists_and_none_is_left_open"),
    ],
)
def test_a_wrong_recipe_is_caught(failures, suite, caught):
    assert caught in failures(suite)
