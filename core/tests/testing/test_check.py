"""What is run of an installed offer, and how each rule's end is told, whatever the plugin does to its process."""

from __future__ import annotations

import importlib
import sys

import pytest
from distributions import write_distribution

from truecluster._registry import KINDS, Registry
from truecluster.api import PluginError
from truecluster.testing._check import BROKEN, MISSING, PASSED, SKIPPED, Collected, Outcome, Wanted, check, rules_of
from truecluster.testing._check.contracts import SUITES, contracts, suites

PLUGIN = """
@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="mine", target="tcplug_mine_planner:Mine", summary="Splits.")
"""
PLANNER = """
import ctypes, time

class Mine(Planner):
    def plan(self, model, nodes, limits):
        print("on standard output")
        if limits == "crash":
            ctypes.string_at(0)
        if limits == "hang":
            time.sleep(600)
        if limits == "exit":
            import os
            os._exit(7)
        raise ValueError(f"no {limits}")
"""
CONTRACT = """
import pytest
from hypothesis import given, strategies
from truecluster.testing._missing import missing
from truecluster.testing.rules import ranging, require
from truecluster.testing.planner import PlannerContract

class TestMine(PlannerContract):
    offer = "mine"

    def test_it_keeps(self, planner):
        '''A rule that is kept.'''

    def test_it_breaks(self):
        '''A rule
        on two lines.

        What it's good for.'''
        require(False, "more", 3, node="a", memory=5)

    def test_it_does(self, planner):
        '''A rule about what it does.'''
        planner.plan(None, None, WHAT)

    @ranging
    @given(number=strategies.integers(0, 1000))
    def test_it_ranges(self, planner, number):
        '''A rule over numbers.'''
        if number >= 17:
            planner.plan(None, None, number)

    @pytest.mark.parametrize("case", ["one", "two", "three"])
    def test_it_has_cases(self, case):
        '''A rule with cases.'''
        require(case == "one", "one", case)

    def test_it_is_skipped(self):
        '''A rule for others.'''
        pytest.skip("no such device")

    def test_it_asks(self):
        '''A rule that needs a sample.'''
        raise missing(self, "sample", "a folder")
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs ``tcplug-mine`` with a plugin, a planner and, where it is given, a contract."""
    before = set(sys.modules)

    def write(contract: str | None = CONTRACT, planner: str = PLANNER) -> None:
        modules = {"tcplug_mine_plugin.py": PLUGIN, "tcplug_mine_planner.py": planner}
        if contract is not None:
            modules["tcplug_mine_contract.py"] = contract
        write_distribution(tmp_path, "tcplug-mine", "1.0", modules)
        if contract is not None:
            with (tmp_path / "tcplug_mine-1.0.dist-info" / "entry_points.txt").open("a") as entries:
                entries.write("[truecluster.contracts]\nmine = tcplug_mine_contract\n")
        importlib.invalidate_caches()

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    for name in set(sys.modules) - before:
        if name.startswith("tcplug_mine"):
            del sys.modules[name]


def outcomes(only: str, limit: float = 100) -> list[Outcome]:
    first, *others = check(Wanted(offers=[("planner", "mine")], only=only, limit=limit))
    assert first == Collected(len(others))
    return [event.outcome for event in others]


def one(only: str, limit: float = 100) -> Outcome:
    (outcome,) = outcomes(only, limit)
    assert (outcome.kind, outcome.offer, outcome.suite, outcome.test) == ("planner", "mine", "TestMine", only)
    return outcome


def line_of(tmp_path, file: str, text: str) -> str:
    lines = (tmp_path / file).read_text().splitlines()
    return f"{tmp_path / file}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


def test_a_rule_that_is_kept(installed):
    installed()
    outcome = one("test_it_keeps")
    assert (outcome.state, outcome.rule, outcome.came, outcome.where) == (PASSED, "A rule that is kept.", None, None)


def test_a_rule_that_is_broken_says_what_was_expected_and_where_the_class_is(installed, tmp_path):
    installed()
    outcome = one("test_it_breaks")
    assert (outcome.state, outcome.rule) == (BROKEN, "A rule on two lines.")
    assert (outcome.expected, outcome.came, outcome.inputs) == ("more", "3", {"node": "a", "memory": "5"})
    assert outcome.where == line_of(tmp_path, "tcplug_mine_planner.py", "class Mine")


def test_what_the_plugin_raises_is_told_with_its_place(installed, tmp_path):
    installed(CONTRACT.replace("WHAT", "'more'"))
    outcome = one("test_it_does")
    assert (outcome.state, outcome.expected) == (BROKEN, "that nothing is raised")
    assert outcome.came == "ValueError: no more"
    assert outcome.where == line_of(tmp_path, "tcplug_mine_planner.py", "raise ValueError")


def test_the_smallest_input_is_told_of_what_the_plugin_raises(installed):
    installed()
    outcome = one("test_it_ranges")
    assert (outcome.came, outcome.inputs) == ("ValueError: no 17", {"number": "17"})


@pytest.mark.skipif(sys.platform == "win32", reason="signals end processes only on POSIX")
def test_a_crash_costs_one_rule_and_its_place_is_told(installed, tmp_path):
    installed(CONTRACT.replace("WHAT", "'crash'"))
    outcome = one("test_it_does")
    assert (outcome.state, outcome.expected) == (BROKEN, "that it ends")
    assert outcome.came == "the process ended by SIGSEGV"
    assert outcome.where == line_of(tmp_path, "tcplug_mine_planner.py", "ctypes.string_at")


def test_an_exit_costs_one_rule(installed):
    installed(CONTRACT.replace("WHAT", "'exit'"))
    assert one("test_it_does").came == "the process exited with 7"


def test_what_hangs_is_ended_and_its_place_told(installed, tmp_path):
    installed(CONTRACT.replace("WHAT", "'hang'"))
    outcome = one("test_it_does", limit=2)
    assert (outcome.expected, outcome.came) == ("that it is done within 2 s", "it was not done after 2 s")
    assert outcome.where == line_of(tmp_path, "tcplug_mine_planner.py", "time.sleep")


def test_the_rules_after_a_crash_are_still_checked(installed):
    rules = "class TestMine(PlannerContract):\n    offer = 'mine'\n"
    rules += "    def test_it_does(self, planner):\n        planner.plan(None, None, 'exit')\n"
    installed(f"from truecluster.testing.planner import PlannerContract\n{rules}", PLANNER)
    events = list(check(Wanted(offers=[("planner", "mine")])))
    ended = [event.outcome.test for event in events[1:]]
    assert [isinstance(event, Collected) for event in events] == [True] + [False] * events[0].tests
    assert len(ended) == len(set(ended)) == events[0].tests


def test_what_is_skipped_and_what_is_missing_say_why(installed):
    installed()
    skipped, asked = one("test_it_is_skipped"), one("test_it_asks")
    assert (skipped.state, skipped.reason) == (SKIPPED, "no such device")
    assert (asked.state, asked.reason) == (MISSING, "TestMine must give sample: a folder")


def test_cases_become_one_rule(installed):
    installed()
    (rule,) = rules_of(outcomes("test_it_has_cases"))
    assert (rule.cases, rule.broken, rule.outcome.case, rule.outcome.came) == (3, 2, "two", "two")


def test_an_unknown_rule_is_refused_with_what_there_is(installed):
    installed()
    with pytest.raises(PluginError, match="--only test_it_kept: there is no such rule; did you mean 'test_it_keeps'"):
        outcomes("test_it_kept")


def test_without_a_contract_of_its_own_the_kinds_is_run(installed):
    installed(None)
    (contract,) = contracts(registry := Registry.installed(), registry.offer("planner", "mine"))
    assert (contract.__name__, contract.offer, contract.KIND) == ("TestPlanner", "mine", "planner")


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        (
            CONTRACT.replace('"mine"', '"mien"'),
            "tcplug_mine_contract:TestMine of tcplug-mine is about planner 'mien', which tcplug-mine doesn't offer; "
            "did you mean 'mine'?; planners that it offers: mine; correct its 'offer'",
        ),
        (
            CONTRACT.replace("test_it_keeps", "test_every_part_is_placed_once_in_order"),
            "tcplug_mine_contract:TestMine of tcplug-mine replaces test_every_part_is_placed_once_in_order; "
            "rules of the kit stand: rename your own tests",
        ),
        (
            "import no_such_module",
            "the contracts of tcplug-mine can't be imported from tcplug_mine_contract "
            "(ModuleNotFoundError: No module named 'no_such_module'); at {folder}/tcplug_mine_contract.py:2",
        ),
    ],
)
def test_a_contract_that_would_hold_nothing_is_refused(installed, tmp_path, contract, message):
    installed(contract)
    with pytest.raises(PluginError) as refused:
        list(check(Wanted(offers=[("planner", "mine")])))
    assert str(refused.value) == message.replace("{folder}", str(tmp_path))


def test_a_target_that_cannot_be_imported_is_refused(installed):
    installed(planner="import no_such_module")
    with pytest.raises(PluginError, match="No module named 'no_such_module'"):
        list(check(Wanted(offers=[("planner", "mine")])))


def test_every_kind_has_suites_that_are_about_it():
    assert list(SUITES) == list(KINDS)
    about = {(kind, suite.KIND) for kind in KINDS for row in suites(kind) for suite in row}
    assert about == {(kind, kind) for kind in KINDS}


def test_where_a_suite_has_an_alternative_the_authors_choice_replaces_it(tmp_path, monkeypatch):
    spec = "CheckpointSpec(name='mine', target='x:Y', forms=('mine:',))"
    source = f"@hookimpl\ndef truecluster_checkpoints():\n    yield {spec}\n"
    contract = "from truecluster.testing.locator import LocatorContract\nclass TestMine(LocatorContract): offer='mine'"
    write_distribution(tmp_path, "tcplug-mine", "1.0", {"tcplug_mine.py": source, "tcplug_mine_contract.py": contract})
    with (tmp_path / "tcplug_mine-1.0.dist-info" / "entry_points.txt").open("a") as entries:
        entries.write("[truecluster.contracts]\nmine = tcplug_mine_contract\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry.installed()
    assert [each.__name__ for each in contracts(registry, registry.offer("checkpoint", "mine"))] == ["TestMine"]
