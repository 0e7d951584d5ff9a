"""What ``tc plugin check`` holds the first-party offers to is what their own tests do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from truecluster._registry import KINDS, Offer, Registry
from truecluster._registry.selection import normalized
from truecluster.testing._check.contracts import contracts
from truecluster.testing._contract import Contract

ROOT = Path(__file__).parents[1]
TESTS = {
    normalized(file.parents[1].name): file
    for pattern in ("tcplug_*/tests/test_contract.py", "plugins/*/tests/test_contract.py")
    for file in ROOT.glob(pattern)
}
REGISTRY = Registry.installed()
OFFERS = [offer for kind in KINDS for offer in REGISTRY.offers(kind) if normalized(offer.distribution) in TESTS]


def module_at(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"contract_of_{file.parents[1].name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def held_in(file: Path, offer: Offer) -> set[tuple[str, ...]]:
    """The contracts in a test module that are about the offer."""
    classes = [each for each in vars(module_at(file)).values() if isinstance(each, type) and issubclass(each, Contract)]
    return {suites_of(each) for each in classes if (getattr(each, "KIND", ""), each.offer) == named(offer)}


def named(offer: Offer) -> tuple[str, str]:
    return offer.kind, offer.spec.name


def suites_of(contract: type) -> tuple[str, ...]:
    """A contract of the package by its name, a plain one by the suites that it is made of."""
    if not contract.__module__.startswith(("truecluster.", "contract_of_")):
        return (f"{contract.__module__}.{contract.__qualname__}",)
    kits = [each for each in contract.__mro__ if each.__module__.startswith("truecluster.testing")]
    return tuple(sorted(each.__name__ for each in kits if any(name.startswith("test_") for name in vars(each))))


def test_every_first_party_plugin_with_offers_has_a_contract_test() -> None:
    own = {normalized(file.parent.name) for file in [*ROOT.glob("tcplug_*/*.toml"), *ROOT.glob("plugins/*/*.toml")]}
    assert own == set(TESTS)


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: "/".join(named(offer)))
def test_check_runs_what_the_tests_of_the_plugin_run(offer: Offer) -> None:
    checked = {suites_of(each) for each in contracts(REGISTRY, offer)}
    found = held_in(TESTS[normalized(offer.distribution)], offer)
    assert {name for names in checked for name in names} == {name for names in found for name in names}
