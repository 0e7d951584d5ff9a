"""A plugin of pytest that tells how each test of a contract ends."""

from __future__ import annotations

import faulthandler
import importlib.util
from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import Any, TextIO

import attrs
import pytest

from truecluster._registry import Offer, Registry
from truecluster._registry.suggest import near

from .._missing import Missing
from ..rules import Broken, shown
from . import blame
from .outcomes import BROKEN, MISSING, NOTHING_RAISED, SKIPPED, Outcome


@attrs.define(eq=False)
class Recorder:
    """Leaves out all tests but ``only`` (all, where it is empty) and those that are ``done``, by their ids.

    A test that isn't done after ``limit`` seconds ends the process, with the stacks of its threads in ``trace``.
    """

    registry: Registry
    say: Callable[[dict[str, Any]], None]
    only: str
    done: frozenset[str]
    limit: float
    trace: TextIO
    refused: str = ""
    _outcome: Outcome | None = None
    _contract: str = ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.refused = self.refused or f"its contract can't be collected: {str(report.longrepr).strip()[-1000:]}"

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        names = {_test(item) for item in items}
        if self.only and self.only not in names:
            parts = [f"--only {self.only}: there is no such rule", near(self.only, names)]
            self.refused = "; ".join(filter(None, [*parts, f"rules: {', '.join(sorted(names))}"]))
        wanted = [item for item in items if self.only in ("", _test(item))]
        self.say({"event": "collected", "tests": len(wanted)})
        items[:] = [] if self.refused else [item for item in wanted if item.nodeid not in self.done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        assert isinstance(item, pytest.Function)
        self._outcome, self._contract = _unknown(item), item.cls.__module__
        self.say(
            {
                "event": "started",
                "id": item.nodeid,
                "outcome": attrs.asdict(self._outcome),
                "folders": _folders(packages(self.registry, self._offer())),
            }
        )
        faulthandler.dump_traceback_later(self.limit, exit=True, file=self.trace)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            self.say({"event": "ended", "id": item.nodeid, "outcome": attrs.asdict(self._outcome)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        assert self._outcome is not None
        seconds = self._outcome.seconds + call.duration
        self._outcome = attrs.evolve(self._outcome, seconds=seconds)
        if call.excinfo is not None and self._outcome.state not in (BROKEN, MISSING):
            self._outcome = self._judged(self._outcome, call.excinfo.value, report.skipped)
        return report

    def _judged(self, outcome: Outcome, raised: BaseException, skipped: bool) -> Outcome:
        error = blame.root_cause(raised)
        if skipped:
            return attrs.evolve(outcome, state=SKIPPED, reason=str(error))
        if isinstance(error, Missing):
            return attrs.evolve(outcome, state=MISSING, reason=str(error))
        broken = isinstance(error, Broken)
        offer = self._offer()
        return attrs.evolve(
            outcome,
            state=BROKEN,
            expected=error.expected if isinstance(error, Broken) else NOTHING_RAISED,
            came=error.came if isinstance(error, Broken) else shown(f"{type(error).__name__}: {error}"),
            inputs=(error.inputs if isinstance(error, Broken) else {}) or blame.example(error if broken else raised),
            where=blame.place(error, packages(self.registry, offer), self._contract) or self._declared(offer),
        )

    def _offer(self) -> Offer:
        assert self._outcome is not None
        return self.registry.offer(self._outcome.kind, self._outcome.offer)

    def _declared(self, offer: Offer) -> str | None:
        target = None if offer.kind == "quantizer" else self.registry.resolve(offer.kind, offer.spec.name)
        return blame.declaration(target, offer.origin)


def packages(registry: Registry, offer: Offer) -> frozenset[str]:
    """The top-level modules of the offer's distribution, as far as its declarations name them."""
    named = [found.module for found in registry.found if found.distribution == offer.distribution]
    named.append(getattr(offer.spec, "target", ""))
    return frozenset(each.partition(":")[0].partition(".")[0] for each in named if each)


@cache
def _folders(names: Sequence[str]) -> list[str]:
    specs = [importlib.util.find_spec(name) for name in names]
    folders = [folder for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    return folders + [spec.origin for spec in specs if spec and not spec.submodule_search_locations and spec.origin]


def _unknown(item: pytest.Function) -> Outcome:
    """What is known of a test before it is run."""
    contract: Any = item.cls
    return Outcome(
        kind=contract.KIND,
        offer=contract.offer,
        suite=contract.__name__,
        test=_test(item),
        rule=" ".join((item.function.__doc__ or _test(item)).partition("\n\n")[0].split()),
        case=item.callspec.id if hasattr(item, "callspec") else None,
    )


def _test(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))
