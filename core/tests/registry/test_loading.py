"""Plugins that fail, and what it costs the others: nothing."""

from __future__ import annotations

import pytest

from truecluster._registry import Registry
from truecluster.api import PlannerSpec, PluginError, hookimpl

GOOD = """
@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="good", target="tcplug_good:Good")
"""


@pytest.fixture(autouse=True)
def _good(install):
    install("tcplug-good", "1.0", {"tcplug_good.py": GOOD})


def planners(registry: Registry) -> list[str]:
    return [offer.spec.name for offer in registry.offers("planner")]


def failures(registry: Registry) -> list[str]:
    return [str(failure) for failure in registry.failures]


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError"),
        ("raise SystemExit('no license')", "SystemExit: no license"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_kept_as_a_failure(install, loaded, source, cause):
    install("tcplug-bad", "2.1", {"tcplug_bad.py": source})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert failures(registry)[0].startswith(f"tcplug-bad 2.1 ({cause}")


def test_a_hook_that_does_not_exist_is_a_failure(install, loaded):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": "@hookimpl\ndef truecluster_planers():\n    yield 1\n"})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert "truecluster_planers" in failures(registry)[0]


def test_a_hook_with_arguments_is_a_failure(install, loaded):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": "@hookimpl\ndef truecluster_planners(config):\n    yield 1\n"})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert "config" in failures(registry)[0]


BAD_HOOK = """
@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="lost", target="tcplug_bad:Lost")
    {failing}

@hookimpl
def truecluster_devices():
    yield DeviceSpec(name="kept", target="tcplug_bad:Kept")
"""


@pytest.mark.parametrize(
    ("failing", "cause"),
    [
        ("raise RuntimeError('no driver')", "RuntimeError: no driver"),
        ("yield 'a string'", "truecluster_planners yields 'a string', which is no PlannerSpec"),
        ("yield DeviceSpec(name='x', target='a:b')", "which is no PlannerSpec"),
        ("raise SystemExit('no license')", "SystemExit: no license"),
        ("yield PlannerSpec(name='x', target='a:b', memory=8)", "unexpected keyword argument 'memory'"),
        ("yield PlannerSpec(name='x', target='a')", "target 'a' of 'x' is not of the form 'package.module:Name'"),
        ("yield PlannerSpec(name='x:y', target='a:b')", "name 'x:y' is not made of letters"),
        ("yield PlannerSpec(name='', target='a:b')", "name '' is not made of letters"),
    ],
)
def test_a_hook_that_fails_costs_only_its_own_offers(install, loaded, failing, cause):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": BAD_HOOK.format(failing=failing)})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert [offer.spec.name for offer in registry.offers("device")] == ["kept"]
    assert cause in failures(registry)[0]


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("return None", "truecluster_planners returns None, which is no iterable of specs; yield them"),
        ("return PlannerSpec(name='x', target='a:b')", "which is no iterable of specs"),
        ("return 'x'", "truecluster_planners yields 'x', which is no PlannerSpec"),
    ],
)
def test_a_hook_must_give_specs(install, loaded, body, cause):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": f"@hookimpl\ndef truecluster_planners():\n    {body}\n"})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert cause in failures(registry)[0]


@pytest.mark.parametrize("body", ["return []", "yield 1"])
def test_a_hook_that_is_async_is_a_failure(install, loaded, body):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": f"@hookimpl\nasync def truecluster_planners():\n    {body}\n"})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert "truecluster_planners is async; hooks are plain functions" in failures(registry)[0]


def test_a_hook_that_is_not_marked_is_a_failure(install, loaded):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": "def truecluster_planners():\n    return []\n"})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert (
        "truecluster_planners isn't marked as a hook; put @truecluster.api.hookimpl above it" in failures(registry)[0]
    )


def test_a_module_without_a_hook_is_a_failure(install, loaded):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": "def planners():\n    return []\n"})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert "it has no hook; mark its functions with truecluster.api.hookimpl" in failures(registry)[0]


@pytest.mark.parametrize(
    ("number", "age", "remedy"), [(1, "newer", "upgrade truecluster"), (-1, "older", "upgrade the plugin")]
)
def test_another_interface_number_refuses_the_whole_plugin_either_way(install, loaded, number, age, remedy):
    source = BAD_HOOK.format(failing=f"yield PlannerSpec(name='x', target='a:b', api={number})")
    install("tcplug-bad", "1.0", {"tcplug_bad.py": source})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert registry.offers("device") == ()
    assert f"is written for interface {number}, {age} than the 0 of this truecluster; {remedy}" in failures(registry)[0]


def test_a_module_named_by_two_distributions_counts_once(install, loaded, site):
    install("tcplug-copy", "1.0", {"tcplug_good.py": GOOD})
    registry = loaded()
    assert planners(registry) == ["good"]
    assert "tcplug-good 1.0" in failures(registry)[0]
    assert "same module as another plugin" in failures(registry)[0]


def test_any_object_can_be_registered():
    class Plugin:
        @hookimpl
        def truecluster_planners(self):
            yield PlannerSpec(name="inline", target="a:b")

    registry = Registry()
    registry.register(Plugin(), "here", "0")
    (offer,) = registry.offers("planner")
    assert (offer.spec.name, offer.distribution, offer.version) == ("inline", "here", "0")


def test_a_kind_that_does_not_exist_is_refused():
    with pytest.raises(PluginError, match="there is no plugin kind 'planer'; kinds: architecture, "):
        Registry().offers("planer")
