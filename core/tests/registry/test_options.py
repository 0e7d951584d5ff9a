"""Options of offers: declared by a spec, typed by a user, taken by the target."""

from __future__ import annotations

import pytest

from truecluster.api import Option, PlanError, PlannerSpec, PluginError

SOURCE = """
class Greedy(Planner):
    def __init__(self, share, spare, order, eager):
        if share > 1:
            raise ValueError("more than all of it")
        if order == "none":
            raise PlanError("an order is needed")
        self.given = (share, spare, order, eager)

    def plan(self, model, nodes, limits):
        return []

@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="greedy", target="tcplug_a:Greedy", options=[
        Option(name="share", type="float", default=0.5, help="Part of the memory to use, from 0 to 1."),
        Option(name="spare", type="int", default=None, help="Nodes to leave out."),
        Option(name="order", type="str", default="size", help="size or speed."),
        Option(name="eager", type="bool", default=False, help="Fill the first node first."),
    ])
    yield PlannerSpec(name="wrong", target="tcplug_a:Greedy")
"""


@pytest.fixture
def registry(install, loaded):
    install("tcplug-a", "1.0", {"tcplug_a.py": SOURCE})
    return loaded()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0.5, None, "size", False)),
        ({"share": "1", "spare": "-2"}, (1.0, -2, "size", False)),
        ({"share": "1e-3", "order": "a=b", "eager": "True"}, (0.001, None, "a=b", True)),
    ],
)
def test_the_target_gets_every_option_in_its_type(registry, given, expected):
    made = registry.make("planner", "greedy", given).given
    assert made == expected
    assert [type(value) for value in made] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share": "half"}, "option share=half of planner 'greedy' is not a number: Part of the memory"),
        ({"share": "nan"}, "option share=nan .* is not a number"),
        ({"share": "inf"}, "option share=inf .* is not a number"),
        ({"spare": "1.5"}, "option spare=1.5 .* is not a whole number: Nodes"),
        ({"eager": "1"}, "option eager=1 .* is not true or false: Fill"),
        (
            {"shar": "1"},
            r"planner 'greedy' has no option 'shar'; did you mean 'share' or 'spare'\?; its options: "
            r"share \(float, default 0\.5\), spare \(int\), order \(str, default size\), eager \(bool, default false\)",
        ),
        ({"share": "2"}, r"'greedy' of tcplug-a 1\.0 can't be made with share=2.0, .*: ValueError: more than all"),
    ],
)
def test_what_does_not_fit_is_refused(registry, given, message):
    with pytest.raises(PluginError, match=message):
        registry.make("planner", "greedy", given)


def test_a_planner_may_refuse_in_its_own_words(registry):
    with pytest.raises(PlanError, match=r"^an order is needed$"):
        registry.make("planner", "greedy", {"order": "none"})


def test_a_target_that_wants_what_its_spec_does_not_declare_is_named(registry):
    with pytest.raises(PluginError, match=r"planner 'wrong' of tcplug-a 1\.0 can't be made with no options: TypeError"):
        registry.make("planner", "wrong", {})
    with pytest.raises(PluginError, match="planner 'wrong' has no option 'share'; it has none"):
        registry.make("planner", "wrong", {"share": "1"})


def test_options_are_checked_without_importing_the_target(install, loaded):
    source = SOURCE.replace('"tcplug_b:Greedy"', '"tcplug_nowhere:Greedy"')
    install("tcplug-b", "1.0", {"tcplug_b.py": source})
    expected = {"share": 0.25, "spare": None, "order": "size", "eager": False}
    assert loaded().options("planner", "greedy", {"share": "0.25"}) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a-b", "type": "int", "default": 1}, "no Python identifier"),
        ({"name": "a", "type": "int", "default": 1.5}, "default 1.5 of option 'a' is no int"),
        ({"name": "a", "type": "int", "default": True}, "default True of option 'a' is no int"),
        ({"name": "a", "type": "path", "default": None}, "'type' must be in"),
    ],
)
def test_an_option_is_checked_where_it_is_declared(options, message):
    with pytest.raises(ValueError, match=message):
        Option(**options, help="")


def test_an_option_that_is_declared_twice_is_refused():
    option = Option(name="a", type="int", default=1, help="")
    with pytest.raises(ValueError, match="'x' declares an option twice: a, a"):
        PlannerSpec(name="x", target="a:b", options=(option, option))
