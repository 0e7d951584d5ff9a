"""What came of one test of a suite, and of a rule, which may be tested in several cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

PASSED, SKIPPED, BROKEN, MISSING = "passed", "skipped", "broken", "missing"
"""States of an outcome; missing: the package's contract lacks what the suite asks its author for."""
WORST = (PASSED, SKIPPED, MISSING, BROKEN)
"""A rule is skipped only where all its cases are, which `rules_of` sees to."""
NOTHING_RAISED = "that nothing is raised"
"""What `Outcome.expected` says where an error came through a rule that doesn't ask about it."""


@attrs.frozen(kw_only=True)
class Outcome:
    """One case of one rule.

    ``rule`` is the rule's sentence, ``case`` names the case where there are several. ``expected``, ``came`` and
    ``inputs`` are of a broken rule, ``where`` is ``file:line`` in the plugin's package. ``reason`` is why it was
    skipped, or what is missing.
    """

    kind: str
    offer: str
    suite: str
    test: str
    rule: str
    state: str = PASSED
    case: str | None = None
    seconds: float = 0.0
    expected: str | None = None
    came: str | None = None
    inputs: Mapping[str, str] = attrs.field(factory=dict)
    where: str | None = None
    reason: str | None = None


@attrs.frozen
class Rule:
    """One rule over all its ``cases``; ``outcome`` is that of its first broken case, or what stands for them all."""

    outcome: Outcome
    cases: int
    broken: int
    seconds: float


def rules_of(outcomes: Iterable[Outcome]) -> list[Rule]:
    """The rules in the order in which they were tested."""
    cases: dict[tuple[str, str, str, str], list[Outcome]] = {}
    for each in outcomes:
        cases.setdefault((each.kind, each.offer, each.suite, each.test), []).append(each)
    return [_rule(group) for group in cases.values()]


def _rule(cases: list[Outcome]) -> Rule:
    tested = [each for each in cases if each.state != SKIPPED] or cases
    worst = max(tested, key=lambda each: WORST.index(each.state))
    broken = sum(each.state == BROKEN for each in cases)
    return Rule(worst, len(cases), broken, sum(each.seconds for each in cases))
