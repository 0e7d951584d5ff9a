"""Which contracts an offer is held to: those that its distribution brings, else its kind's, given just the name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution

from truecluster._registry import Offer, Registry
from truecluster._registry.places import of_error
from truecluster._registry.suggest import near
from truecluster.api import PluginError

from .._contract import Contract

GROUP = "truecluster.contracts"
"""Group of the entry points that name modules with an author's contracts."""
SUITES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "architecture": (("architecture:ArchitectureContract",),),
    "quantizer": (("quantizer:QuantizerContract",),),
    "format": (("format:FormatContract",),),
    "transport": (("transport:StreamContract",), ("transport:EdgeContract",)),
    "planner": (("planner:PlannerContract",),),
    "device": (("device:DeviceContract",),),
    "checkpoint": (("checkpoint:CheckpointContract", "locator:LocatorContract"),),
    "kernel": (("kernel:KernelContract",),),
}
"""Kind → what an offer is held to: of each row the first, or what its author made of one of them."""


def suites(kind: str) -> list[list[type[Contract]]]:
    """`SUITES`, imported."""
    return [[_suite(name) for name in row] for row in SUITES[kind]]


def _suite(name: str) -> type[Contract]:
    module, _, suite = name.partition(":")
    found: type[Contract] = getattr(importlib.import_module(f"truecluster.testing.{module}"), suite)
    return found


def contracts(registry: Registry, offer: Offer) -> list[type[Contract]]:
    """Those that ``offer`` is held to. Raises `PluginError` where its distribution's own can't be used."""
    own = [each for each in brought(registry, offer.distribution) if (each.KIND, each.offer) == _named(offer)]
    found: list[type[Contract]] = []
    for row in suites(offer.kind):
        found += [each for each in own if issubclass(each, tuple(row))] or [_plain(row[0], offer)]
    return list(dict.fromkeys(found))


def _plain(suite: type[Contract], offer: Offer) -> type[Contract]:
    return type(f"Test{suite.__name__.removesuffix('Contract')}", (suite,), {"offer": offer.spec.name})


def brought(registry: Registry, name: str) -> list[type[Contract]]:
    """The contracts that a distribution brings. Raises `PluginError` for one that names no offer of it."""
    offers = [offer for kind in SUITES for offer in registry.offers(kind) if offer.distribution == name]
    found = [each for module in _modules(name) for each in _classes(name, module)]
    for each in found:
        _check(each, name, offers)
    return found


def _named(offer: Offer) -> tuple[str, str]:
    return offer.kind, offer.spec.name


def _modules(name: str) -> list[str]:
    return sorted({entry.value for entry in distribution(name).entry_points if entry.group == GROUP})


def _classes(name: str, module: str) -> Iterator[type[Contract]]:
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        place = of_error(error, module)
        where = f"; at {place}" if place else ""
        cause = f"{type(error).__name__}: {error}"
        raise PluginError(f"the contracts of {name} can't be imported from {module} ({cause}){where}") from error
    for key, value in vars(found).items():
        if key.startswith("Test") and isinstance(value, type) and issubclass(value, Contract):
            yield value


def _check(contract: type[Contract], name: str, offers: Sequence[Offer]) -> None:
    """Raise `PluginError` for a contract that would hold nothing, or less than the kind's does."""
    where = f"{contract.__module__}:{contract.__qualname__} of {name}"
    kind = getattr(contract, "KIND", None)
    names = [offer.spec.name for offer in offers if offer.kind == kind]
    if contract.offer not in names:
        there = f"{kind}s that it offers: {', '.join(names) or 'none'}"
        parts = [f"{where} is about {kind} {contract.offer!r}, which {name} doesn't offer", near(contract.offer, names)]
        raise PluginError("; ".join(filter(None, [*parts, there, "correct its 'offer'"])))
    theirs = [each for each in contract.__mro__ if each.__module__.partition(".")[0] != "truecluster"]
    kits = [suite for row in suites(str(kind)) for suite in row if issubclass(contract, suite)]
    rules = {rule for suite in kits for rule in dir(suite) if rule.startswith("test_")}
    replaced = sorted({rule for each in theirs for rule in vars(each)} & rules)
    if replaced:
        raise PluginError(f"{where} replaces {', '.join(replaced)}; rules of the kit stand: rename your own tests")
