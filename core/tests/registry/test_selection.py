"""What switches and variables say of plugins."""

from __future__ import annotations

import logging
import sys

import pytest

from truecluster._registry import Registry, Selection
from truecluster.api import PluginError

PLANNER = """
@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="greedy", target="{module}:Greedy")
"""


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Selection()),
        ({"TRUECLUSTER_PLUGINS": "a, b,"}, Selection(allow=("a", "b"))),
        ({"TRUECLUSTER_PLUGINS": ""}, Selection()),
        ({"TRUECLUSTER_WITHOUT_PLUGINS": "a"}, Selection(deny=("a",))),
        ({"TRUECLUSTER_NO_PLUGINS": "1"}, Selection(allow=())),
        ({"TRUECLUSTER_NO_PLUGINS": "0", "TRUECLUSTER_PLUGINS": "a"}, Selection(allow=("a",))),
        ({"TRUECLUSTER_STRICT_PLUGINS": "Yes"}, Selection(strict=True)),
        ({"TRUECLUSTER_TRACE_PLUGINS": "on", "TRUECLUSTER_STRICT_PLUGINS": "off"}, Selection(trace=True)),
    ],
)
def test_the_environment_is_read(environment, expected):
    assert Selection.from_environment(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TRUECLUSTER_STRICT_PLUGINS": "maybe"}, r"TRUECLUSTER_STRICT_PLUGINS='maybe' is neither yes \(1, true"),
        ({"TRUECLUSTER_PLUGINS": "a", "TRUECLUSTER_NO_PLUGINS": "1"}, "--no-plugins .* leaves every plugin out"),
        ({"TRUECLUSTER_PLUGINS": "A_b", "TRUECLUSTER_WITHOUT_PLUGINS": "c,a-B"}, "both name a-b; leave one"),
    ],
)
def test_what_contradicts_itself_or_is_not_understood_is_refused(environment, message):
    with pytest.raises(PluginError, match=message):
        Selection.from_environment(environment)


def test_the_environment_selects_what_is_installed(install, loaded, monkeypatch):
    for name in ("a", "b"):
        install(f"tcplug-{name}", "1.0", {f"tcplug_{name}.py": PLANNER.format(module=name)})
    monkeypatch.setenv("TRUECLUSTER_WITHOUT_PLUGINS", "tcplug-a")
    registry = loaded()
    assert [found.distribution for found in registry.found] == ["tcplug-b"]
    assert [found.distribution for found in registry.left_out] == ["tcplug-a"]
    assert registry.offer("planner", "greedy").distribution == "tcplug-b"


def test_a_failure_is_named_in_a_log_line(install, loaded, caplog, site):
    install("tcplug-bad", "0.3", {"tcplug_bad.py": "raise OSError('no library')"})
    with caplog.at_level(logging.WARNING):
        loaded()
    assert caplog.messages == [
        "a plugin failed: tcplug-bad 0.3 (OSError: no library; mend it, or leave it out with --without-plugins "
        f"tcplug-bad; at {site}/tcplug_bad.py:2)"
    ]


def test_strict_refuses_failures_and_clashes_and_names_all_of_them(install, site):
    for name in ("a", "b"):
        install(f"tcplug-{name}", "1.0", {f"tcplug_{name}.py": PLANNER.format(module=name)})
    install("tcplug-bad", "0.3", {"tcplug_bad.py": "raise OSError('no library')"})
    with pytest.raises(PluginError) as caught:
        Registry.installed(Selection(strict=True))
    assert str(caught.value) == (
        "--strict-plugins allows no plugin that fails: tcplug-bad 0.3 (OSError: no library; mend it, or leave it out "
        f"with --without-plugins tcplug-bad; at {site}/tcplug_bad.py:2); "
        "planner 'greedy' is offered by tcplug-a 1.0 and by tcplug-b 1.0; "
        "uninstall one of them, or leave one out with --without-plugins; "
        f"at {site}/tcplug_a.py:3 and {site}/tcplug_b.py:3"
    )


def test_strict_takes_sound_plugins(install):
    install("tcplug-a", "1.0", {"tcplug_a.py": PLANNER.format(module="a")})
    assert Registry.installed(Selection(strict=True)).failures == []


def test_strict_refuses_a_kernel_that_raises(install):
    source = """
    @hookimpl
    def truecluster_kernels():
        yield KernelSpec(name="lost", target="tcplug_k:Lost", rank=1)
    """
    install("tcplug-k", "1.0", {"tcplug_k.py": source})
    registry = Registry.installed(Selection(strict=True))
    with pytest.raises(PluginError, match=r"--strict-plugins .* tcplug-k 1\.0 .*'lost' .* can't be imported"):
        registry.kernels()


def test_the_trace_tells_what_is_found_imported_registered_resolved_and_failed(install, capsys, monkeypatch, site):
    target = "class Greedy(Planner):\n    def plan(self, model, nodes, limits): return []\n"
    install("tcplug-a", "1.0", {"tcplug_a.py": PLANNER.format(module="tcplug_a_target"), "tcplug_a_target.py": target})
    install("tcplug-b", "2.0", {"tcplug_b.py": PLANNER.format(module="b")})
    install("tcplug-bad", "0.3", {"tcplug_bad.py": "raise OSError('no library')"})
    registry = Registry.installed(Selection(trace=True, deny=("tcplug-b",)))
    registry.resolve("planner", "greedy")
    monkeypatch.delattr(sys.modules["tcplug_a_target"], "Greedy")
    with pytest.raises(PluginError):
        registry.resolve("planner", "greedy")
    said = [
        line.partition("]: ")[2].rpartition(" (") for line in capsys.readouterr().err.splitlines() if "plugins[" in line
    ]
    lines = [said_line if space else rest for said_line, space, rest in said]
    assert lines == [
        "searched for plugins, found 2",
        "found tcplug-a 1.0: main is tcplug_a",
        "found tcplug-bad 0.3: main is tcplug_bad",
        "left out tcplug-b 2.0: main",
        "imported tcplug_a of tcplug-a 1.0",
        "registered tcplug-a 1.0: planner/greedy",
        "failed: tcplug_bad of tcplug-bad 0.3: OSError: no library",
        "resolved planner 'greedy' of tcplug-a 1.0: tcplug_a_target:Greedy",
        "failed: planner 'greedy' of tcplug-a 1.0: tcplug_a_target:Greedy can't be imported "
        "(AttributeError: module 'tcplug_a_target' has no attribute 'Greedy'); mend it, or the target of its spec; "
        f"at {site}/tcplug_a.py:3",
    ]
    assert [rest.endswith(" ms)") for _, space, rest in said if space] == [True] * 6


def test_without_the_trace_nothing_is_said(install, loaded, capsys):
    install("tcplug-a", "1.0", {"tcplug_a.py": PLANNER.format(module="a")})
    loaded()
    assert capsys.readouterr() == ("", "")
