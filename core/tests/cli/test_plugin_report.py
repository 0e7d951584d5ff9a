"""The report of ``tc plugin check``, word for word."""

from __future__ import annotations

import pytest

from truecluster._cli.plugin_report import Verdict, as_text, exit_code, facts
from truecluster._registry import Offer
from truecluster.api import QuantizerSpec, Role
from truecluster.testing._check import BROKEN, MISSING, NOTHING_RAISED, PASSED, SKIPPED, Outcome, rules_of

SPEC = QuantizerSpec(name="int4.*", roles=dict.fromkeys(Role, "int4.g32.asym"), summary="Four bits.")
OFFER = Offer(SPEC, "tcplug-mine", "1.0", "/site/tcplug_mine/plugin.py")


def outcome(test: str, state: str = PASSED, **rest: object) -> Outcome:
    about = {"kind": "quantizer", "offer": "int4.*", "suite": "TestMine", "rule": f"The rule of {test}."}
    return Outcome(test=test, state=state, **about, **rest)


BAD = outcome(
    "test_cases",
    BROKEN,
    case="wide",
    expected="the values of the whole, which is a text so long that it takes more than one line of the whole report",
    came="other\nvalues",
    inputs={"shape": "(3, 1)"},
    where="/site/tcplug_mine/int4.py:7",
)
OUTCOMES = [
    outcome("test_kept"),
    outcome("test_cases", case="narrow"),
    BAD,
    outcome("test_asks", MISSING, reason="TestMine must give oracle(packed): the tensor in fp32"),
    outcome("test_else", SKIPPED, reason="the format can't pack"),
]
TEXT = """\
broken: quantizer/int4.* test_cases (1 of 2 cases)
  rule        The rule of test_cases.
  expected    the values of the whole, which is a text so long that it takes more than one line of the whole
              report
  came        other
              values
  case        wide
  with shape  (3, 1)
  where       /site/tcplug_mine/int4.py:7
  docs        docs/plugins.md#quantizer
  again       tc plugin check 'quantizer/int4.*' --only test_cases

not checked: quantizer/int4.* test_asks
  rule     The rule of test_asks.
  missing  TestMine must give oracle(packed): the tensor in fp32
  remedy   give it in a contract of the package, named by an entry point of the group truecluster.contracts
  docs     docs/plugins.md#quantizer

skipped: quantizer/int4.* test_else: the format can't pack
quantizer/int4.* of tcplug-mine 1.0 breaks 1 of 2 rules; 1 can't be checked; 1 skipped"""


def verdict(*outcomes: Outcome) -> Verdict:
    return Verdict(OFFER, rules_of(outcomes))


def test_the_report_says_all_of_it():
    assert as_text([verdict(*OUTCOMES)]) == TEXT


def test_one_error_that_breaks_many_rules_is_told_once():
    same = {"expected": NOTHING_RAISED, "came": "TypeError: no 'share'", "where": "/site/tcplug_mine/int4.py:7"}
    other = {**same, "where": "/site/tcplug_mine/int4.py:9"}
    rules = [outcome(f"test_{n}", BROKEN, **told) for n, told in enumerate([same, other, same, same])]
    text = as_text([verdict(*rules)])
    assert [line for line in text.splitlines() if "broken:" in line or "also" in line] == [
        "broken: quantizer/int4.* test_0",
        "  also breaks  test_2, test_3",
        "broken: quantizer/int4.* test_1",
    ]
    assert text.endswith("breaks 4 of 4 rules")


def test_what_conforms_takes_a_line():
    line = "quantizer/int4.* of tcplug-mine 1.0 keeps the 2 rules that were checked; 1 skipped"
    kept = verdict(outcome("a"), outcome("b"), OUTCOMES[-1])
    assert as_text([kept, verdict(outcome("a"))]).splitlines()[1] == line


@pytest.mark.parametrize(
    ("outcomes", "code"), [(OUTCOMES[:2], 0), (OUTCOMES, 1), ([OUTCOMES[3], OUTCOMES[0]], 2), ([OUTCOMES[4]], 0)]
)
def test_the_exit_code(outcomes, code):
    assert exit_code([verdict(outcome("a")), verdict(*outcomes)]) == code


def test_json_has_the_same_facts():
    found = facts([verdict(*OUTCOMES)])
    rules = {rule["test"]: rule for rule in found["offers"][0]["rules"]}
    assert found["conforms"] is False
    assert rules["test_cases"] == {
        "suite": "TestMine",
        "test": "test_cases",
        "rule": "The rule of test_cases.",
        "state": "broken",
        "case": "wide",
        "expected": BAD.expected,
        "came": "other\nvalues",
        "inputs": {"shape": "(3, 1)"},
        "where": "/site/tcplug_mine/int4.py:7",
        "reason": None,
        "cases": 2,
        "broken_cases": 1,
        "seconds": 0.0,
        "docs": "docs/plugins.md#quantizer",
        "again": "tc plugin check 'quantizer/int4.*' --only test_cases",
    }
    assert rules["test_else"]["reason"] == "the format can't pack"
