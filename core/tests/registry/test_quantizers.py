"""Recipes, their families, and formats by id."""

from __future__ import annotations

import pytest

from truecluster.api import PluginError

SOURCE = """
class Four(WeightFormat):
    asked = []

    @classmethod
    def from_id(cls, id):
        if id == "int4.g7":
            raise PluginError("int4 has no member g7; members: g32")
        cls.asked.append(id)
        member = cls()
        member.id = id
        return member

    wire_bytes = rows = take = None

@hookimpl
def truecluster_quantizers():
    yield FormatSpec(name="int4", target="tcplug_q:Four")
    yield QuantizerSpec(name="int4", roles={"linear": "int4.g32.asym", "head": "int8"})
    yield QuantizerSpec(name="int4.*", roles={"linear": "int4.*", "head": "int8", "norm": "keep"})
    yield QuantizerSpec(name="int4.odd.*", roles={"linear": "int4.*"})
    yield QuantizerSpec(name="int4.g64", roles={"linear": "int4.g64.tuned"})
"""


@pytest.fixture
def registry(install, loaded):
    install("tcplug-q", "1.0", {"tcplug_q.py": SOURCE})
    return loaded()


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("int4", {"linear": "int4.g32.asym", "head": "int8"}),
        ("int4.g128", {"linear": "int4.g128", "head": "int8", "norm": "keep"}),
        ("int4.g32.sym", {"linear": "int4.g32.sym", "head": "int8", "norm": "keep"}),
        ("int4.g64", {"linear": "int4.g64.tuned"}),
        ("int4.odd.g3", {"linear": "int4.g3"}),
    ],
)
def test_an_exact_name_wins_and_a_family_passes_on_the_rest(registry, name, roles):
    recipe = registry.recipe(name)
    assert (recipe.name, recipe.roles) == (name, roles)


@pytest.mark.parametrize("name", ["int3", "int4.", "int45", ""])
def test_a_recipe_that_nothing_offers_is_refused(registry, name):
    with pytest.raises(PluginError, match=f"unknown quantizer '{name}'"):
        registry.recipe(name)


def test_a_format_is_found_by_what_stands_before_the_first_dot_and_kept(registry):
    first = registry.format("int4.g32.asym")
    assert first.id == "int4.g32.asym"
    assert registry.format("int4.g32.asym") is first
    assert type(first).asked == ["int4.g32.asym"]


def test_a_member_that_a_family_lacks_is_the_familys_to_refuse(registry):
    with pytest.raises(PluginError, match="int4 has no member g7; members: g32"):
        registry.format("int4.g7")


def test_a_family_that_nothing_offers_is_refused(registry):
    with pytest.raises(PluginError, match="unknown format 'int5'; did you mean 'int4'"):
        registry.format("int5.g32")


def test_a_recipe_is_data_and_resolves_to_no_class(registry):
    with pytest.raises(PluginError, match="is a recipe, not a class"):
        registry.resolve("quantizer", "int4")
