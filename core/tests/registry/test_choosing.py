"""From a name to a class."""

from __future__ import annotations

import pytest

from truecluster._registry import Registry, Selection
from truecluster.api import PluginError

PLANNER = """
class {name}(Planner):
    def plan(self, model, nodes, limits):
        return []

@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="{offer}", target="{module}:{name}", summary="A planner.")
"""


def planner(offer: str, module: str, name: str = "Mine") -> str:
    return PLANNER.format(offer=offer, module=module, name=name)


def test_the_target_is_imported_only_when_it_is_chosen(install, loaded):
    spec = """
    @hookimpl
    def truecluster_planners():
        yield PlannerSpec(name="greedy", target="tcplug_a_heavy:Greedy")
    """
    install("tcplug-a", "1.0", {"tcplug_a.py": spec, "tcplug_a_heavy.py": "raise RuntimeError('too heavy')"})
    registry = loaded()
    assert registry.failures == []
    assert registry.spec("planner", "greedy").target == "tcplug_a_heavy:Greedy"
    with pytest.raises(PluginError, match=r"'greedy' of tcplug-a 1.0: .* \(RuntimeError: too heavy\)"):
        registry.resolve("planner", "greedy")


def test_a_name_resolves_to_its_class_and_version(install, loaded):
    install("tcplug-a", "1.2.3", {"tcplug_a.py": planner("greedy", "tcplug_a")})
    registry = loaded()
    assert registry.resolve("planner", "greedy")().plan(None, [], None) == []
    assert registry.compat("planner", "greedy") == "1.2.3"


def test_a_target_of_another_base_class_is_refused(install, loaded):
    source = planner("greedy", "tcplug_a") + "\nclass Mine:\n    pass\n"
    install("tcplug-a", "1.0", {"tcplug_a.py": source})
    with pytest.raises(PluginError, match=r"tcplug_a:Mine is not a subclass of truecluster\.api\.Planner"):
        loaded().resolve("planner", "greedy")


@pytest.mark.parametrize(
    ("flags", "base", "fits"),
    [
        ("edges=True", "EdgeTransport", True),
        ("edges=True", "StreamTransport", False),
        ("edges=True, streams=True", "EdgeTransport", False),
        ("edges=True, streams=True", "StreamTransport, EdgeTransport", True),
        ("", "StreamTransport, EdgeTransport", False),
    ],
)
def test_a_transport_must_be_what_its_spec_offers(install, loaded, flags, base, fits):
    source = f"""
    class Mine({base}):
        pass

    Mine.__abstractmethods__ = frozenset()

    @hookimpl
    def truecluster_transports():
        yield TransportSpec(name="mine", target="tcplug_a:Mine", {flags})
    """
    install("tcplug-a", "1.0", {"tcplug_a.py": source})
    if fits:
        assert loaded().resolve("transport", "mine").__name__ == "Mine"
    else:
        with pytest.raises(PluginError, match=r"is not a subclass of|its spec offers nothing"):
            loaded().resolve("transport", "mine")


def test_of_two_offers_with_one_name_neither_wins(install, loaded):
    install("tcplug-a", "1.0", {"tcplug_a.py": planner("greedy", "tcplug_a")})
    install("tcplug-b", "2.0", {"tcplug_b.py": planner("greedy", "tcplug_b")})
    registry = loaded()
    with pytest.raises(PluginError, match=r"'greedy' is offered by tcplug-a 1\.0 and by tcplug-b 2\.0; uninstall"):
        registry.resolve("planner", "greedy")
    ((one, two),) = registry.conflicts("planner")
    assert (one.distribution, two.distribution) == ("tcplug-a", "tcplug-b")


def test_a_target_that_leaves_methods_out_is_refused(install, loaded):
    source = planner("greedy", "tcplug_a") + "\nclass Mine(Planner):\n    pass\n"
    install("tcplug-a", "1.0", {"tcplug_a.py": source})
    with pytest.raises(PluginError, match=r"'greedy' of tcplug-a 1\.0: tcplug_a:Mine doesn't implement plan"):
        loaded().resolve("planner", "greedy")


def test_a_target_that_ends_the_process_when_imported_is_refused(install, loaded):
    source = planner("greedy", "tcplug_a_exits")
    install("tcplug-a", "1.0", {"tcplug_a.py": source, "tcplug_a_exits.py": "raise SystemExit(3)"})
    with pytest.raises(PluginError, match=r"'greedy' of tcplug-a 1\.0: .* \(SystemExit: 3\)"):
        loaded().resolve("planner", "greedy")


def test_one_distribution_that_offers_a_name_twice_is_to_be_upgraded(install, loaded):
    twice = planner("greedy", "tcplug_a").replace("    yield", "    for _ in range(2):\n        yield")
    install("tcplug-a", "1.0", {"tcplug_a.py": twice})
    with pytest.raises(PluginError, match=r"'greedy' is offered 2 times by tcplug-a 1\.0; upgrade the plugin"):
        loaded().resolve("planner", "greedy")


def test_an_unknown_name_says_which_plugins_were_left_out_instead_of_what_to_install(install):
    install("tcplug-a", "1.0", {"tcplug_a.py": planner("greedy", "tcplug_a")})
    with pytest.raises(PluginError) as caught:
        Registry.installed(Selection(allow=())).resolve("planner", "greedy")
    assert str(caught.value) == (
        "unknown planner 'greedy'; installed: none; left out by --plugins, --without-plugins or --no-plugins: tcplug-a"
    )


def test_an_unknown_name_says_what_is_near_what_failed_and_what_to_install(install, loaded, site):
    install("tcplug-a", "1.0", {"tcplug_a.py": planner("greedy", "tcplug_a")})
    install("tcplug-bad", "0.3", {"tcplug_bad.py": "raise OSError('no library')"})
    with pytest.raises(PluginError) as caught:
        loaded().resolve("planner", "gredy")
    assert str(caught.value) == (
        "unknown planner 'gredy'; did you mean 'greedy'?; installed: greedy; "
        "plugins that failed: tcplug-bad 0.3 (OSError: no library; mend it, or leave it out with --without-plugins "
        f"tcplug-bad; at {site}/tcplug_bad.py:2); a plugin that has it must be installed first"
    )
    assert caught.value.exit_code == 2


def test_a_name_that_no_distribution_could_have_gets_no_command_to_paste(loaded):
    with pytest.raises(PluginError) as caught:
        loaded().resolve("planner", "x; rm -rf ~")
    assert "pip install" not in str(caught.value)
