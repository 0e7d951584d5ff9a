"""An author's mistake gives one message that names the distribution, file and line, and what to do: word for word.

What can be seen without importing a target is told by ``tc plugin list``; and all of it where the offer is chosen.
"""

from __future__ import annotations

import pytest

from truecluster._cli import plugin
from truecluster._registry import Registry
from truecluster.api import PluginError

RIGHT = """
@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="mine", target="tcplug_mine:Mine")
"""
DECLARED = {
    "a misspelt hook": (
        RIGHT.replace("planners", "planers"),
        "truecluster_planers is no hook; did you mean 'truecluster_planners'?; at {file}:3",
    ),
    "a hook of no known name": (
        RIGHT.replace("truecluster_planners", "prepare"),
        "prepare is no hook; the hooks are truecluster_architectures, truecluster_quantizers, truecluster_transports, "
        "truecluster_planners, truecluster_devices, truecluster_checkpoints, truecluster_kernels, truecluster_event; "
        "at {file}:3",
    ),
    "a hook that is not marked": (
        RIGHT.replace("@hookimpl", ""),
        "truecluster_planners isn't marked as a hook; put @truecluster.api.hookimpl above it; at {file}:4",
    ),
    "no hook": (
        "planners = ()",
        "it has no hook; mark its functions with truecluster.api.hookimpl; at {file}",
    ),
    "an argument": (
        RIGHT.replace("()", "(config)"),
        "truecluster_planners(config) must be declared as def truecluster_planners(); at {file}:3",
    ),
    "a default": (
        RIGHT.replace("()", "(config: dict | None = None)"),
        "truecluster_planners(config=None) must be declared as def truecluster_planners(); at {file}:3",
    ),
    "a default of an observer": (
        "@hookimpl\ndef truecluster_event(event=None):\n    pass\n",
        "truecluster_event(event=None) must be declared as def truecluster_event(event); at {file}:2",
    ),
    "an async hook": (
        RIGHT.replace("def", "async def"),
        "truecluster_planners is async; hooks are plain functions; at {file}:3",
    ),
    "a spec that is not yielded": (
        RIGHT.replace("yield", "return"),
        "truecluster_planners returns PlannerSpec(name='mine', target='tcplug_mine:Mine', summary='', api=0, "
        "options=()), which is no iterable of specs; yield them; at {file}:3",
    ),
    "a class in place of a spec": (
        RIGHT.replace("yield", "yield Planner #"),
        "truecluster_planners yields <class 'truecluster.api.planner.Planner'>, which is no PlannerSpec; "
        "yield only those; at {file}:3",
    ),
    "a spec of another kind": (
        RIGHT.replace("PlannerSpec", "DeviceSpec"),
        "truecluster_planners yields DeviceSpec(name='mine', target='tcplug_mine:Mine', summary='', api=0, rank=0), "
        "which is no PlannerSpec; yield only those; at {file}:3",
    ),
    "a spec that can't be made": (
        RIGHT.replace("tcplug_mine:", ""),
        "ValueError: target 'Mine' of 'mine' is not of the form 'package.module:Name'; "
        "mend it, or leave it out with --without-plugins tcplug-mine; at {file}:5",
    ),
    "an old number": (
        RIGHT.replace('Mine")', 'Mine", api=-1)'),
        "planner 'mine' is written for interface -1, older than the 0 of this truecluster; upgrade the plugin; "
        "at {file}:3",
    ),
    "a new number": (
        RIGHT.replace('Mine")', 'Mine", api=9)'),
        "planner 'mine' is written for interface 9, newer than the 0 of this truecluster; upgrade truecluster; "
        "at {file}:3",
    ),
    "an absent library": (
        "import math\nimport libmine.fast\n" + RIGHT,
        "ModuleNotFoundError: No module named 'libmine'; install what has libmine, and name it among the plugin's "
        "dependencies; at {file}:3",
    ),
    "an import from the core's inside": (
        "from truecluster.planner import Planner\n" + RIGHT,
        "ModuleNotFoundError: No module named 'truecluster.planner'; import what a plugin may use from "
        "truecluster.api; at {file}:2",
    ),
    "an error at import": (
        "import json\njson.loads('{')\n" + RIGHT,
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1); "
        "mend it, or leave it out with --without-plugins tcplug-mine; at {file}:3",
    ),
}
"""What is wrong → the plugin's module, which has a line before it, and what is said of it."""


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The problems that ``tc plugin list`` names."""
    capsys.readouterr()
    plugin.list_offers(kind=None, as_json=False)
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(("source", "said"), DECLARED.values(), ids=DECLARED)
def test_a_mistake_in_what_is_declared_is_named_in_the_list_and_where_it_is_chosen(install, site, capsys, source, said):
    install("tcplug-mine", "0.3", {"tcplug_mine.py": source})
    message = f"tcplug-mine 0.3 ({said.format(file=site / 'tcplug_mine.py')})"
    assert listed(capsys) == [f"tc: a plugin failed: {message}"]
    with pytest.raises(PluginError) as caught:
        Registry.installed().resolve("planner", "mine")
    assert str(caught.value) == (
        f"unknown planner 'mine'; installed: none; plugins that failed: {message}; "
        "a plugin that has it must be installed first"
    )


def test_a_syntax_error_is_named_with_its_line(install, site, capsys):
    install("tcplug-mine", "0.3", {"tcplug_mine.py": "import math\ndef truecluster_planners(:\n    pass\n"})
    (message,) = listed(capsys)
    assert message.startswith("tc: a plugin failed: tcplug-mine 0.3 (SyntaxError: ")
    assert message.endswith(
        f"; mend it, or leave it out with --without-plugins tcplug-mine; at {site / 'tcplug_mine.py'}:3)"
    )


def test_an_entry_point_that_names_nothing_says_so(install, site, capsys):
    install("tcplug-mine", "0.3", {"tcplug_mine.py": RIGHT})
    (site / "tcplug_mine.py").rename(site / "other.py")
    assert listed(capsys) == [
        "tc: a plugin failed: tcplug-mine 0.3 (ModuleNotFoundError: No module named 'tcplug_mine'; "
        "mend its entry point, or leave it out with --without-plugins tcplug-mine)"
    ]


def test_a_name_that_two_offer_names_both_places(install, site, capsys):
    for each in ("mine", "yours"):
        install(f"tcplug-{each}", "0.3", {f"tcplug_{each}.py": RIGHT})
    message = (
        "planner 'mine' is offered by tcplug-mine 0.3 and by tcplug-yours 0.3; uninstall one of them, or leave one out "
        f"with --without-plugins; at {site}/tcplug_mine.py:3 and {site}/tcplug_yours.py:3"
    )
    assert listed(capsys) == [f"tc: {message}"]
    with pytest.raises(PluginError) as caught:
        Registry.installed().resolve("planner", "mine")
    assert str(caught.value) == message


def test_a_name_that_one_offers_twice_names_its_place(install, site, capsys):
    install("tcplug-mine", "0.3", {"tcplug_mine.py": RIGHT + RIGHT.partition(":\n")[2]})
    assert listed(capsys) == [
        f"tc: planner 'mine' is offered 2 times by tcplug-mine 0.3; upgrade the plugin; at {site}/tcplug_mine.py:3"
    ]


def test_a_module_that_two_name_is_told_of_both(install, site, capsys):
    for name in ("mine", "yours"):
        install(f"tcplug-{name}", "0.3", {"tcplug_mine.py": RIGHT})
    assert listed(capsys) == [
        "tc: a plugin failed: tcplug-yours 0.3 (it names the same module as another plugin, tcplug-mine 0.3; "
        f"uninstall one of them; at {site}/tcplug_mine.py)"
    ]


TARGETS = {
    "another base class": (
        "\nclass Mine:\n    pass\n",
        "tcplug_mine:Mine is not a subclass of truecluster.api.Planner; derive it from that; at {file}:7",
    ),
    "no class": (
        "\nMine = 3\n",
        "tcplug_mine:Mine is not a subclass of truecluster.api.Planner; derive it from that; at {file}:3",
    ),
    "a method that is missing": (
        "\nclass Mine(Planner):\n    pass\n",
        "tcplug_mine:Mine doesn't implement plan; add that; at {file}:7",
    ),
    "a name that isn't there": (
        "",
        "tcplug_mine:Mine can't be imported (AttributeError: module 'tcplug_mine' has no attribute 'Mine'); "
        "mend it, or the target of its spec; at {file}:3",
    ),
}
"""What is wrong with a target, which needs to be imported to be seen → the rest of the module, and what is said."""


@pytest.mark.parametrize(("rest", "said"), TARGETS.values(), ids=TARGETS)
def test_a_mistake_in_a_target_is_named_where_it_is_chosen(install, site, capsys, rest, said):
    install("tcplug-mine", "0.3", {"tcplug_mine.py": RIGHT + rest})
    assert listed(capsys) == []
    with pytest.raises(PluginError) as caught:
        Registry.installed().resolve("planner", "mine")
    assert str(caught.value) == f"planner 'mine' of tcplug-mine 0.3: {said.format(file=site / 'tcplug_mine.py')}"


def test_a_target_whose_import_fails_is_named_with_its_own_line(install, site):
    source = RIGHT.replace("tcplug_mine:", "tcplug_mine_planner:")
    install("tcplug-mine", "0.3", {"tcplug_mine.py": source, "tcplug_mine_planner.py": "\nimport libmine\n"})
    with pytest.raises(PluginError) as caught:
        Registry.installed().resolve("planner", "mine")
    assert str(caught.value) == (
        "planner 'mine' of tcplug-mine 0.3: tcplug_mine_planner:Mine can't be imported (ModuleNotFoundError: No module "
        "named 'libmine'); install what has libmine, and name it among the plugin's dependencies; "
        f"at {site}/tcplug_mine_planner.py:3"
    )


def test_a_target_of_no_module_is_named_where_it_is_declared(install, site):
    install("tcplug-mine", "0.3", {"tcplug_mine.py": RIGHT.replace("tcplug_mine:", "nowhere:")})
    with pytest.raises(PluginError) as caught:
        Registry.installed().resolve("planner", "mine")
    assert str(caught.value) == (
        "planner 'mine' of tcplug-mine 0.3: nowhere:Mine can't be imported (ModuleNotFoundError: No module named "
        f"'nowhere'); mend it, or the target of its spec; at {site}/tcplug_mine.py:3"
    )
