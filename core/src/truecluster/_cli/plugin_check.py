"""The body of ``tc plugin check``: finds what is meant, has it checked, and shows how far that is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import attrs

from truecluster._registry import Offer, Registry
from truecluster.api import PluginError, RequestError

from . import plugin_info
from .options import say
from .plugin_report import Verdict, named

if TYPE_CHECKING:
    from truecluster.testing._check import Outcome, Rule

NEEDED = ("pytest", "hypothesis")
LONGEST_S = 24 * 3600


def verdicts(registry: Registry, name: str, only: str, limit: float, verbose: bool) -> list[Verdict]:
    """Check what ``name`` means, telling how far it is; ``registry`` has discovered plugins and loaded none.

    Raises `PluginError` where it can't be checked.
    """
    from truecluster.testing._check import Ended, Wanted, check, check_ends, rules_of

    _check_kit()
    if not 0 < limit <= LONGEST_S:
        raise RequestError(f"--timeout {limit:g} is no time; give seconds up to {LONGEST_S}, such as 120")
    heavy = check_ends([found.module for found in registry.found])
    registry.load()
    offers = offers_to_check(registry, name)
    _check_light(registry, offers, heavy)
    wanted = Wanted(offers=[(offer.kind, offer.spec.name) for offer in offers], only=only, limit=limit)
    outcomes = []
    with _progress(verbose) as tell:
        for event in check(wanted):
            tell(event)
            if isinstance(event, Ended):
                outcomes.append(event.outcome)
    rules = rules_of(outcomes)
    return [Verdict(offer, [rule for rule in rules if _is_about(rule, offer)]) for offer in offers]


def offers_to_check(registry: Registry, name: str) -> list[Offer]:
    """Raises `PluginError` where there are none, or where something is wrong with them or their distribution."""
    offers = plugin_info.meant(registry, name)
    if not offers:
        shown = plugin_info.find(registry, name)
        failures = [f"{f['distribution']} {f['version']} fails to load: {f['cause']}" for f in shown["failures"]]
        raise PluginError("; ".join(failures) or f"{name} only observes: there is no contract to check it by")
    distributions = {offer.distribution for offer in offers}
    failures = [str(failure) for failure in registry.failures if failure.distribution in distributions]
    if failures:
        raise PluginError(f"a plugin failed: {'; '.join(failures)}; nothing of it is checked before that is mended")
    return [registry.offer(offer.kind, offer.spec.name) for offer in offers]


def _check_light(registry: Registry, offers: Sequence[Offer], heavy: Mapping[str, str]) -> None:
    distributions = {offer.distribution for offer in offers}
    for found in registry.found:
        if found.distribution in distributions and found.module in heavy:
            raise PluginError(
                f"{found.distribution} {found.version}: {found.module} imports {heavy[found.module]}, which every "
                "command would wait for; import truecluster.api alone there, and the rest in the module of the target"
            )


def _check_kit() -> None:
    if not all(map(_is_there, NEEDED)):
        raise PluginError(
            f"checking plugins needs {' and '.join(NEEDED)}, which aren't both installed; "
            "run: pip install 'truecluster[testing]'"
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # something has put None in its place
        return False


def _is_about(rule: Rule, offer: Offer) -> bool:
    return (rule.outcome.kind, rule.outcome.offer) == (offer.kind, offer.spec.name)


@contextmanager
def _progress(verbose: bool) -> Iterator[Any]:
    """A function that takes the events, and shows them on standard error."""
    if verbose:
        yield _line
    elif sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("collecting the rules") as status:
            yield _Counter(status)
    else:
        yield lambda event: None


def _line(event: Any) -> None:
    from truecluster.testing._check import Collected

    if not isinstance(event, Collected):
        outcome = event.outcome
        say(f"{outcome.state:<8} {named(outcome)}{_case(outcome)} ({outcome.seconds:.2f} s)")


@attrs.define
class _Counter:
    status: Any
    total: int = 0
    done: int = 0

    def __call__(self, event: Any) -> None:
        from truecluster.testing._check import Collected

        if isinstance(event, Collected):
            self.total = event.tests
        else:
            self.done += 1
            self.status.update(f"{self.done} of {self.total}: {named(event.outcome)}")


def _case(outcome: Outcome) -> str:
    return f" [{outcome.case}]" if outcome.case else ""
