"""With a hundred plugins installed a command imports none of them more than it must; ``make bench`` has the time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from distributions import write_distribution

COUNT = 100
LOG = "from pathlib import Path\nwith Path({log!r}).open('a') as log:\n    log.write(__name__ + '\\n')\n"
SPEC = """
@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="dummy-{i}", target="tcplug_dummy_{i}_target:Dummy")
"""
TARGET = """
class Dummy(Planner):
    def plan(self, model, nodes, limits):
        return []
"""

Imported = Callable[..., "Counter[str]"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hundred")
    says = LOG.format(log=str(folder / "log"))
    for i in range(COUNT):
        modules = {f"tcplug_dummy_{i}.py": says + SPEC.format(i=i), f"tcplug_dummy_{i}_target.py": says + TARGET}
        write_distribution(folder, f"tcplug-dummy-{i}", "1.0", modules)
    return folder


@pytest.fixture
def imported(site: Path) -> Imported:
    """How often a command imports which of their modules."""

    def run(*arguments: str) -> Counter[str]:
        (site / "log").write_text("")
        environment = {**os.environ, "PYTHONPATH": str(site)}
        command = [sys.executable, "-m", "truecluster", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
        assert done.returncode == 0, done.stderr
        return Counter((site / "log").read_text().splitlines())

    return run


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["plugin", "list", "--help"]])
def test_help_imports_no_plugin(imported: Imported, arguments: list[str]) -> None:
    assert imported(*arguments) == Counter()


def test_the_list_imports_what_declares_offers_once_and_no_target(imported: Imported) -> None:
    assert imported("plugin", "list") == Counter(f"tcplug_dummy_{i}" for i in range(COUNT))


def test_only_the_target_that_is_asked_for_is_imported(imported: Imported) -> None:
    found = imported("plugin", "info", "planner/dummy-7")
    assert found == Counter(["tcplug_dummy_7_target", *(f"tcplug_dummy_{i}" for i in range(COUNT))])


def test_what_is_left_out_is_not_imported(imported: Imported) -> None:
    found = imported("plugin", "list", "--plugins", "tcplug-dummy-3,tcplug-dummy-4")
    assert found == Counter(["tcplug_dummy_3", "tcplug_dummy_4"])
