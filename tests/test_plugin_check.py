"""``tc plugin check`` as an author uses it: from any folder, on what is installed, with a report to act on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FILES = {
    "tcplug_mine-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tcplug-mine\nVersion: 1.0\n",
    "tcplug_mine-1.0.dist-info/entry_points.txt": """
[truecluster.plugins]
mine = tcplug_mine.plugin
[truecluster.contracts]
mine = tcplug_mine.contract
""",
    "tcplug_mine/__init__.py": "",
    "tcplug_mine/plugin.py": """
from truecluster.api import PlannerSpec, hookimpl

@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="mine", target="tcplug_mine.planner:Mine")
""",
    "tcplug_mine/planner.py": """
from truecluster.api import Planner

class Mine(Planner):
    def plan(self, model, nodes, limits):
        print("a line that is no part of the report")
        return []

    def share(self, nodes):
        return [7 // len(nodes)] * len(nodes)
""",
    "tcplug_mine/contract.py": """
from hypothesis import given, strategies
from truecluster.testing.rules import ranging, require
from truecluster.testing.planner import PlannerContract

class TestMine(PlannerContract):
    offer = "mine"

    @ranging
    @given(nodes=strategies.lists(strategies.integers(0, 9), min_size=1))
    def test_shares_are_whole(self, planner, nodes):
        '''Shares add up to seven.'''
        shares = planner.share(nodes)
        require(sum(shares) == 7, "shares whose sum is 7", shares, nodes=nodes)

    @ranging
    @given(count=strategies.integers(0, 9))
    def test_any_number_is_shared(self, planner, count):
        '''Any number of nodes gets shares.'''
        planner.share(range(count))
""",
}
SHARES = """\
broken: planner/mine test_shares_are_whole
  rule        Shares add up to seven.
  expected    shares whose sum is 7
  came        [3, 3]
  with nodes  [0, 0]
  where       {site}/tcplug_mine/planner.py:4
  docs        docs/plugins.md#planner
  again       tc plugin check planner/mine --only test_shares_are_whole

planner/mine of tcplug-mine 1.0 breaks 1 of 1 rules
"""
RAISED = """\
broken: planner/mine test_any_number_is_shared
  rule        Any number of nodes gets shares.
  expected    that nothing is raised
  came        ZeroDivisionError: integer division or modulo by zero
  with count  0
  where       {site}/tcplug_mine/planner.py:10
  docs        docs/plugins.md#planner
  again       tc plugin check planner/mine --only test_any_number_is_shared

planner/mine of tcplug-mine 1.0 breaks 1 of 1 rules
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where ``tcplug-mine`` is installed."""
    for name, source in FILES.items():
        file = tmp_path / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return tmp_path / "site"


def tc(site: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``tc plugin check …`` in a folder whose pytest configuration would break every run."""
    folder = site.parent / "elsewhere"
    folder.mkdir(exist_ok=True)
    (folder / "conftest.py").write_text("raise RuntimeError('a conftest of the folder was read')")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    return subprocess.run(
        [sys.executable, "-m", "truecluster", "plugin", "check", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site), "PYTEST_ADDOPTS": "--no-such-option", **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize(("rule", "text"), [("test_shares_are_whole", SHARES), ("test_any_number_is_shared", RAISED)])
def test_the_report_of_a_broken_rule(site: Path, rule: str, text: str) -> None:
    done = tc(site, "mine", "--only", rule)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == text.format(site=site)
    assert sorted(path.name for path in (site.parent / "elsewhere").iterdir()) == ["conftest.py", "pytest.ini"]


def test_json_says_the_same_and_a_line_tells_of_each_case(site: Path) -> None:
    done = tc(site, "planner/mine", "--json", "--verbose", "--timeout", "60")
    assert done.returncode == 1
    report: dict[str, Any] = json.loads(done.stdout)
    (offer,) = report["offers"]
    broken = {rule["test"]: rule for rule in offer["rules"] if rule["state"] == "broken"}
    assert (report["conforms"], offer["conforms"], offer["distribution"]) == (False, False, "tcplug-mine")
    expected = {
        "suite": "TestMine",
        "rule": "Shares add up to seven.",
        "expected": "shares whose sum is 7",
        "came": "[3, 3]",
        "inputs": {"nodes": "[0, 0]"},
        "where": f"{site}/tcplug_mine/planner.py:4",
        "docs": "docs/plugins.md#planner",
        "again": "tc plugin check planner/mine --only test_shares_are_whole",
    }
    assert {name: broken["test_shares_are_whole"][name] for name in expected} == expected
    assert len(done.stderr.splitlines()) == sum(rule["cases"] for rule in offer["rules"])
    assert "broken   planner/mine test_shares_are_whole (" in done.stderr


def test_what_conforms_is_said_to() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "truecluster", "plugin", "check", "tcplug-planner-even"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("planner/even of tcplug-planner-even 0.1.0 keeps the ")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("mien", "tc: no plugin offers 'mien', and no plugin has that name; did you mean 'mine'?"),
        ("observes", "tc: observes only observes: there is no contract to check it by"),
    ],
)
def test_what_cannot_be_checked_ends_with_two(site: Path, name: str, line: str) -> None:
    (site / "observes.py").write_text(
        "from truecluster.api import hookimpl\n\n\n@hookimpl\ndef truecluster_event(event): pass\n"
    )
    info = site / "observes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: observes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[truecluster.plugins]\nobserves = observes\n")
    done = tc(site, name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(line)


def test_a_distribution_that_fails_in_part_is_not_checked(site: Path) -> None:
    plugin = site / "tcplug_mine" / "plugin.py"
    plugin.write_text(plugin.read_text() + "\n\n@hookimpl\ndef truecluster_devices():\n    return 7\n")
    done = tc(site, "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "tcplug-mine 1.0" in done.stderr
    assert "nothing of it is checked before that is mended" in " ".join(done.stderr.split())


def test_without_the_extra_the_remedy_is_said(site: Path) -> None:
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['hypothesis'] = None\n")
    done = tc(site, "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tc: checking plugins needs pytest and hypothesis, which aren't both installed; "
        "run: pip install 'truecluster[testing]'\n"
    )


@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "86401"])
def test_a_time_that_is_none_is_refused(site: Path, seconds: str) -> None:
    done = tc(site, "mine", "--timeout", seconds)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tc: --timeout {float(seconds):g} is no time; give seconds up to 86400, such as 120\n"


def test_a_module_that_declares_imports_nothing_heavy(site: Path) -> None:
    plugin = site / "tcplug_mine" / "plugin.py"
    plugin.write_text(plugin.read_text() + "\ntry:\n    import numpy\nexcept ImportError:\n    pass\n")
    done = tc(site, "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"tc: tcplug-mine 1.0: tcplug_mine.plugin imports numpy at {plugin}:9, which every command would wait for; "
        "import truecluster.api alone there, and the rest in the module of the target\n"
    )


def test_a_module_that_ends_the_process_is_named(site: Path) -> None:
    (site / "tcplug_mine" / "plugin.py").write_text("import os\n\nos._exit(0)\n")
    done = tc(site, "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tc: importing tcplug_mine.plugin ends the process, with 0; a plugin's module only declares: "
        "let it run nothing when imported\n"
    )
