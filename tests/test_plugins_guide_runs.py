"""docs/plugins.md followed from top to bottom: its commands are run, and its examples keep their contracts."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from environments import Environment
from guide import CONSOLE, TEXT, examples, write_examples

from truecluster._registry import KINDS, Registry, Selection
from truecluster.api import RequestFinished
from truecluster.testing._check import BROKEN, MISSING, Ended, Wanted, check

pytestmark = pytest.mark.timeout(300)  # whole contracts are checked, maybe on busy cores
ELSEWHERE = {"transport"} if sys.platform != "linux" else set()
"""Kinds whose example says that it needs Linux."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on the path with the packages of all examples."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def registry(site: Path) -> Registry:
    """Of the examples alone."""
    registry = Registry(Selection(allow=tuple(write_examples(site)), strict=True))
    registry.discover()
    registry.load()
    registry.check_strict()
    return registry


def test_every_kind_has_an_example_that_keeps_its_contract(registry: Registry) -> None:
    offers = [(kind, offer.spec.name) for kind in KINDS for offer in registry.offers(kind)]
    assert [kind for kind, _ in offers] == list(KINDS)
    wanted = Wanted(offers=[offer for offer in offers if offer[0] not in ELSEWHERE])
    outcomes = [event.outcome for event in check(wanted) if isinstance(event, Ended)]
    assert {(each.kind, each.offer) for each in outcomes} == set(wanted.offers)
    assert [attrs.asdict(each) for each in outcomes if each.state in (BROKEN, MISSING)] == []


def test_the_observer_hears(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    (observer,) = registry.observers
    observer.call(RequestFinished(reason="stop", prompt_tokens=3, generated_tokens=7, seconds=0.5))
    assert capsys.readouterr().err == "7 tokens in 0.5 s\n"


def test_the_tests_among_the_examples_pass(site: Path, registry: Registry) -> None:
    tests = [
        (path, name)
        for path in examples()
        if path.startswith("test_")
        for name in re.findall(r"^def (test_\w+)\(\)", examples()[path], re.MULTILINE)
    ]
    assert tests
    for path, name in tests:
        runpy.run_path(str(site / path))[name]()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The reader's environment."""
    return Environment.create(tmp_path_factory.mktemp("reader"))


def test_every_command_ends_well_and_a_mistake_is_reported_as_is_shown(
    reader: Environment, tiny: Path, tmp_path: Path
) -> None:
    folder = tmp_path
    for line in CONSOLE:
        words = [str(tiny) if word == "MODEL" else word for word in shlex.split(line)]
        if words[0] == "cd":
            folder = folder / words[1]
        else:
            ended = run(reader, words, folder)
            assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
    (shown,) = re.findall(r"^```text\n(broken:.*?)```", TEXT, re.DOTALL | re.MULTILINE)
    found = report_of_a_mistake(reader, tmp_path / "tcplug_mine", rule=shown.split()[2])
    assert steady(found) == steady(shown)


def steady(report: str) -> list[str]:
    """Labels, and what stands behind them as far as it doesn't come from the smallest input that was found."""
    lines = [line for line in report.splitlines() if not line.startswith(" " * 10)]
    return [line[:14] if line.split()[0] in ("expected", "came", "with") else line for line in lines]


def run(reader: Environment, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """As the reader types it; pip without network."""
    match words:
        case ["tc", *rest]:
            return reader.tc(*rest, cwd=folder)
        case ["python", *rest]:
            return reader.python(*rest, cwd=folder)
        case ["pip", command, *rest]:
            pip = [sys.executable, "-m", "pip", "--python", str(reader.home / "bin" / "python"), command]
            offline = ["--no-deps", "--no-index", "--no-build-isolation"]
            return subprocess.run([*pip, *offline, *rest], cwd=folder, capture_output=True, text=True, timeout=300)
    raise AssertionError(f"the guide has a command that no test runs: {words}")


def report_of_a_mistake(reader: Environment, package: Path, rule: str) -> str:
    """What the check says of the line that the guide tells to change."""
    wrong, right = re.findall(r"`(start = [^`]+)`", TEXT)
    source = package / "src" / "tcplug_mine" / "planner.py"
    source.write_text(source.read_text().replace(right, wrong))
    checked = reader.tc("plugin", "check", "mine", "--only", rule, cwd=package)
    assert checked.returncode == 1, checked.stderr
    return checked.stdout.partition("\n\n")[0].replace(str(package / "src"), "…")
