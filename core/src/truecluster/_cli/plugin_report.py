"""The report of ``tc plugin check``, as text and as plain data."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from truecluster._registry import Offer

if TYPE_CHECKING:
    from truecluster.testing._check import Outcome, Rule

DOCS = "docs/plugins.md"
"""Has a heading for each kind."""
WIDTH = 100
"""Columns of what stands behind a label."""


@attrs.frozen
class Verdict:
    """What came of an offer."""

    offer: Offer
    rules: Sequence[Rule]

    def having(self, state: str) -> list[Rule]:
        """The rules in that state."""
        return [rule for rule in self.rules if rule.outcome.state == state]


def exit_code(found: Sequence[Verdict]) -> int:
    """0 where every rule is kept, 1 where one is broken, 2 where the author's contract lacks what one needs."""
    states = {rule.outcome.state for verdict in found for rule in verdict.rules}
    return 1 if "broken" in states else 2 if "missing" in states else 0


def facts(found: Sequence[Verdict]) -> dict[str, Any]:
    """The report as plain data."""
    return {"conforms": exit_code(found) == 0, "offers": [_offer_facts(verdict) for verdict in found]}


def _offer_facts(verdict: Verdict) -> dict[str, Any]:
    offer = verdict.offer
    return {
        "kind": offer.kind,
        "name": offer.spec.name,
        "distribution": offer.distribution,
        "version": offer.version,
        "conforms": exit_code([verdict]) == 0,
        "rules": [_rule_facts(rule) for rule in verdict.rules],
    }


def _rule_facts(rule: Rule) -> dict[str, Any]:
    outcome = rule.outcome
    own = {name: value for name, value in attrs.asdict(outcome).items() if name not in ("kind", "offer", "seconds")}
    return {
        **own,
        "cases": rule.cases,
        "broken_cases": rule.broken,
        "seconds": round(rule.seconds, 3),
        "docs": _docs(outcome),
        "again": _again(outcome),
    }


def _docs(outcome: Outcome) -> str:
    return f"{DOCS}#{outcome.kind}"


def _again(outcome: Outcome) -> str:
    return f"tc plugin check {shlex.quote(f'{outcome.kind}/{outcome.offer}')} --only {outcome.test}"


def as_text(found: Sequence[Verdict]) -> str:
    """A paragraph for each broken rule, lines for what was skipped or is missing, and a summary of each offer."""
    return "\n\n".join(paragraph for verdict in found for paragraph in _paragraphs(verdict))


def _paragraphs(verdict: Verdict) -> Iterator[str]:
    for rule, *alike in _by_cause(verdict.having("broken")):
        also = {"also breaks": ", ".join(each.outcome.test for each in alike)}
        lines = _rows({**_reported(rule.outcome), **also})
        yield "\n".join([f"broken: {named(rule.outcome)}{_how_often(rule)}", *lines])
    for rule in verdict.having("missing"):
        remedy = "give it in a contract of the package, named by an entry point of the group truecluster.contracts"
        outcome = rule.outcome
        rows = {"rule": outcome.rule, "missing": str(outcome.reason), "remedy": remedy, "docs": _docs(outcome)}
        yield "\n".join([f"not checked: {named(outcome)}", *_rows(rows)])
    skipped = [f"skipped: {named(rule.outcome)}: {rule.outcome.reason}" for rule in verdict.having("skipped")]
    yield "\n".join([*skipped, _summary(verdict)])


def _by_cause(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Together those that one error of the plugin broke, whatever they were asked, as a constructor's does."""
    from truecluster.testing._check import NOTHING_RAISED

    groups: dict[object, list[Rule]] = {}
    for rule in rules:
        outcome = rule.outcome
        shared = outcome.where is not None and not outcome.inputs and outcome.expected == NOTHING_RAISED
        groups.setdefault((outcome.came, outcome.where) if shared else outcome.test, []).append(rule)
    return list(groups.values())


def _how_often(rule: Rule) -> str:
    return f" ({rule.broken} of {rule.cases} cases)" if rule.cases > 1 else ""


def _reported(outcome: Outcome) -> dict[str, str | None]:
    return {
        "rule": outcome.rule,
        "expected": outcome.expected,
        "came": outcome.came,
        "case": outcome.case,
        **{f"with {name}": value for name, value in outcome.inputs.items()},
        "where": outcome.where,
        "docs": _docs(outcome),
        "again": _again(outcome),
    }


def _rows(rows: Mapping[str, str | None]) -> Iterator[str]:
    """``  label  value``, the value's further lines below its first."""
    shown = {label: value for label, value in rows.items() if value}
    width = max(map(len, shown)) + 2
    for label, value in shown.items():
        first, *others = [part for line in value.splitlines() for part in _wrapped(line)] or [""]
        yield f"  {label:<{width}}{first}"
        yield from (f"  {'':<{width}}{line}" for line in others)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


def _summary(verdict: Verdict) -> str:
    offer = verdict.offer
    broken, missing, skipped = (len(verdict.having(state)) for state in ("broken", "missing", "skipped"))
    tested = len(verdict.rules) - skipped - missing
    kept = f"breaks {broken} of {tested} rules" if broken else f"keeps the {tested} rules that were checked"
    rest = [f"{missing} can't be checked" if missing else "", f"{skipped} skipped" if skipped else ""]
    who = f"{offer.kind}/{offer.spec.name} of {offer.distribution} {offer.version}"
    return "; ".join(filter(None, [f"{who} {kept}", *rest]))


def named(outcome: Outcome) -> str:
    """A rule's name, with the offer's."""
    return f"{outcome.kind}/{outcome.offer} {outcome.test}"
