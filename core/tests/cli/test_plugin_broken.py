"""Everything about plugins works while some are broken: real commands beside plugins of every kind of fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from distributions import write_distribution

PLANNER = """
class Greedy(Planner):
    def plan(self, model, nodes, limits):
        return []

@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="{name}", target="{target}", summary="{summary}", options=[
        Option(name="share", type="float", default=0.5, help="Part of the memory to use, from 0 to 1."),
    ])
"""
BROKEN = {
    "import": "import nowhere_to_be_found",
    "hook": "@hookimpl\ndef truecluster_planers():\n    yield 1\n",
    "raises": "@hookimpl\ndef truecluster_planners():\n    raise RuntimeError('no license')\n",
    "type": "@hookimpl\ndef truecluster_planners():\n    yield 1\n",
    "new": "@hookimpl\ndef truecluster_planners():\n    yield PlannerSpec(name='new', target='a:b', api=7)\n",
}
BAD_TARGETS = {"absent": "tcplug_absent:Nothing", "other": "tcplug_other:hookimpl", "lost": "no_such_module:X"}

Tc = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    healthy = PLANNER.format(name="healthy", target="tcplug_healthy:Greedy", summary="Works.")
    write_distribution(folder, "tcplug-healthy", "1.0", {"tcplug_healthy.py": healthy})
    for name, source in BROKEN.items():
        write_distribution(folder, f"tcplug-{name}", "0.1", {f"tcplug_{name}.py": source})
    for name, target in BAD_TARGETS.items():
        source = PLANNER.format(name=name, target=target, summary="")
        write_distribution(folder, f"tcplug-{name}", "0.1", {f"tcplug_{name}.py": source})
    for name in ("one", "two"):
        source = PLANNER.format(name="twice", target=f"tcplug_{name}:Greedy", summary="")
        write_distribution(folder, f"tcplug-{name}", "0.1", {f"tcplug_{name}.py": source})
    return folder


@pytest.fixture
def tc(site: Path) -> Tc:
    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "truecluster", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(site), **variables},
        )

    return run


def offered(out: str) -> set[str]:
    return {"/".join(line.split()[:2]) for line in out.splitlines()[1:]}


def test_the_list_has_what_works_and_names_what_fails(tc: Tc) -> None:
    done = tc("plugin", "list")
    assert done.returncode == 0
    planners = {name for name in offered(done.stdout) if name.startswith("planner/")}
    assert {"planner/healthy", "planner/absent", "planner/other", "planner/lost", "planner/twice"} <= planners
    assert done.stdout.count("(clashes with another") == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("tc: a plugin failed: ")]
    assert len(lines) == len(BROKEN)
    assert [any(f"tcplug-{name} 0.1 (" in line for line in lines) for name in BROKEN] == [True] * len(BROKEN)


def test_under_strict_the_list_is_the_same_and_ends_with_2(tc: Tc) -> None:
    done = tc("plugin", "list", "--strict-plugins")
    assert done.returncode == 2
    assert "planner/healthy" in offered(done.stdout)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tc: --strict-plugins allows no plugin that fails: ")
    assert "tcplug-one 0.1 and by tcplug-two 0.1" in last


def test_info_of_one_that_works(tc: Tc, site: Path) -> None:
    done = tc("plugin", "info", "healthy")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "planner/healthy",
        "  summary       Works.",
        "  distribution  tcplug-healthy 1.0",
        "  interface     0",
        "  target        tcplug_healthy:Greedy",
        f"  declared in   {site / 'tcplug_healthy.py'}:7",
        "  options, given as NAME:key=value:",
        "    share (float, default 0.5): Part of the memory to use, from 0 to 1.",
    ]


def test_info_as_json(tc: Tc, site: Path) -> None:
    shown = json.loads(tc("plugin", "info", "planner/healthy", "--json").stdout)
    assert shown == {
        "offers": [
            {
                "kind": "planner",
                "name": "healthy",
                "distribution": "tcplug-healthy",
                "version": "1.0",
                "summary": "Works.",
                "conflict": False,
                "api": 0,
                "target": "tcplug_healthy:Greedy",
                "origin": f"{site / 'tcplug_healthy.py'}:7",
                "options": [
                    {
                        "name": "share",
                        "type": "float",
                        "default": 0.5,
                        "help": "Part of the memory to use, from 0 to 1.",
                    }
                ],
                "details": {},
                "problem": None,
            }
        ],
        "observers": [],
        "failures": [],
    }


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("absent", "'absent' of tcplug-absent 0.1: tcplug_absent:Nothing can't be imported (AttributeError"),
        ("planner/lost", "no_such_module:X can't be imported (ModuleNotFoundError: No module named 'no_such_module')"),
        ("other", "tcplug_other:hookimpl is not a subclass of truecluster.api.Planner"),
        ("twice", "planner 'twice' is offered by tcplug-one 0.1 and by tcplug-two 0.1; uninstall one of them"),
        ("tcplug-import", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("tcplug_hook", "truecluster_planers"),
        ("tcplug-raises", "RuntimeError: no license"),
        ("tcplug-type", "truecluster_planners yields 1, which is no PlannerSpec"),
        ("tcplug-new", "planner 'new' is written for interface 7, newer than the 0 of this truecluster; upgrade tr"),
    ],
)
def test_info_explains_one_that_is_broken_and_ends_with_2(tc: Tc, name: str, why: str) -> None:
    done = tc("plugin", "info", name)
    assert (done.returncode, done.stderr) == (2, "")
    assert why in done.stdout
    shown = json.loads(tc("plugin", "info", name, "--json").stdout)
    assert any(why in str(each) for each in [o["problem"] for o in shown["offers"]] + shown["failures"])


def test_info_says_where_a_plugin_broke(tc: Tc, site: Path) -> None:
    lines = tc("plugin", "info", "tcplug-raises").stdout.splitlines()
    assert lines[-1] == f"  at            {site / 'tcplug_raises.py'}:4"


def test_info_of_what_nobody_has(tc: Tc) -> None:
    done = tc("plugin", "info", "healty")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no plugin offers 'healty', and no plugin has that name; did you mean 'healthy'" in done.stderr
    assert "plugins that failed: tcplug-" in done.stderr


def test_a_broken_one_costs_only_its_own_offers(tc: Tc) -> None:
    """What is chosen by name works, and each broken one is named in a line."""
    done = tc("run", "hi", "--planner", "healthy:share=2x")
    assert done.returncode == 2
    assert "option share=2x of planner 'healthy' is not a number: Part of the memory" in done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING a plugin failed: tcplug-")]
    assert len(warnings) == len(BROKEN)


@pytest.mark.parametrize(
    ("planner", "why"),
    [
        (
            "healthy:shar=1",
            "planner 'healthy' has no option 'shar'; did you mean 'share'?; its options: share (float, ",
        ),
        ("even:share=1", "planner 'even' has no option 'share'"),
        ("absent", "tcplug_absent:Nothing can't be imported"),
        ("twice", "planner 'twice' is offered by tcplug-one 0.1 and by tcplug-two 0.1"),
        ("healthy:share", "is not of the form NAME:key=value"),
        ("healthy:share=1:share=0.5", "gives share twice"),
    ],
)
def test_a_planner_that_cannot_be_made_is_refused_before_anything_is_loaded(tc: Tc, planner: str, why: str) -> None:
    done = tc("run", "hi", "--planner", planner)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", [["plan", "--node", "cpu"], ["cluster", "--model", "x/y"]])
def test_every_command_that_plans_refuses_it(tc: Tc, command: list[str]) -> None:
    done = tc(*command, "--planner", "healthy:shar=1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "planner 'healthy' has no option 'shar'; did you mean 'share'?" in done.stderr.splitlines()[-1]


def test_strict_ends_every_command(tc: Tc) -> None:
    done = tc("run", "hi", TRUECLUSTER_STRICT_PLUGINS="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tc: --strict-plugins allows no plugin that fails: ")
