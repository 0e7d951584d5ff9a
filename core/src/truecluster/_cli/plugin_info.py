"""The body of ``tc plugin info``: facts of offers and of plugins that fail, as plain data and as text."""

from __future__ import annotations

from typing import Any

import attrs

from truecluster._registry import KINDS, Offer, PluginFailure, Registry
from truecluster._registry.offers import clash
from truecluster._registry.options import describe, options_of
from truecluster._registry.selection import normalized
from truecluster._registry.suggest import failed, near
from truecluster.api import Option, PluginError, QuantizerSpec

COMMON = ("name", "summary", "api", "target", "options")
"""Fields of specs that are shown apart from those of their kinds."""


def summary(offer: Offer, clashes: bool) -> dict[str, Any]:
    """The facts of a list."""
    return {
        "kind": offer.kind,
        "name": offer.spec.name,
        "distribution": offer.distribution,
        "version": offer.version,
        "summary": offer.spec.summary,
        "conflict": clashes,
    }


def failure_facts(failure: PluginFailure) -> dict[str, Any]:
    """Who failed, why and where."""
    return {
        "distribution": failure.distribution,
        "version": failure.version,
        "cause": failure.reason,
        "place": failure.place,
    }


def find(registry: Registry, name: str) -> dict[str, Any]:
    """``offers`` and ``failures`` of an offer's name, ``KIND/NAME`` or a distribution. Raises `PluginError`."""
    offers = meant(registry, name)
    failures = [failure for failure in registry.failures if _same(failure.distribution, name)]
    observers = [str(observer) for observer in registry.observers if _same(observer.distribution, name)]
    if not (offers or failures or observers):
        raise PluginError(_unknown(registry, name))
    return {
        "offers": [_facts(registry, offer) for offer in offers],
        "observers": observers,
        "failures": [failure_facts(failure) for failure in failures],
    }


def meant(registry: Registry, name: str) -> list[Offer]:
    """The offers of a name, ``KIND/NAME`` or a distribution."""
    return [offer for kind in KINDS for offer in registry.offers(kind) if _is_meant(offer, name)]


def _is_meant(offer: Offer, name: str) -> bool:
    return name in (offer.spec.name, f"{offer.kind}/{offer.spec.name}") or _same(offer.distribution, name)


def _same(distribution: str, name: str) -> bool:
    return normalized(distribution) == normalized(name)


def _unknown(registry: Registry, name: str) -> str:
    offers = [offer for kind in KINDS for offer in registry.offers(kind)]
    known = {offer.spec.name for offer in offers} | {f"{offer.kind}/{offer.spec.name}" for offer in offers}
    distributions = {found.distribution for found in registry.found}
    parts = [
        f"no plugin offers {name!r}, and no plugin has that name",
        near(name, known | distributions),
        failed(registry.failures),
        "tc plugin list shows what is installed",
    ]
    return "; ".join(filter(None, parts))


def _facts(registry: Registry, offer: Offer) -> dict[str, Any]:
    spec = offer.spec
    own = [field.name for field in attrs.fields(type(spec)) if field.name not in COMMON]
    return {
        **summary(offer, offer in sum(registry.conflicts(offer.kind), ())),
        "api": spec.api,
        "target": None if isinstance(spec, QuantizerSpec) else spec.target,
        "origin": offer.origin,
        "options": [attrs.asdict(option) for option in options_of(offer)],
        "details": {name: _plain(getattr(spec, name)) for name in own},
        "problem": _problem(registry, offer),
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _problem(registry: Registry, offer: Offer) -> str | None:
    """Why the offer can't be used, or not by all that it claims, if it can't."""
    for group in registry.conflicts(offer.kind):
        if offer in group:
            return clash(group)
    try:
        if not isinstance(offer.spec, QuantizerSpec):
            registry.resolve(offer.kind, offer.spec.name)
    except PluginError as error:
        return str(error)
    return None


def as_text(shown: dict[str, Any]) -> str:
    """Paragraphs, one for each offer, observer and failure."""
    paragraphs = [_offer_text(offer) for offer in shown["offers"]]
    paragraphs += [[f"observer of {observer}"] for observer in shown["observers"]]
    paragraphs += [_failure_text(failure) for failure in shown["failures"]]
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


def _offer_text(offer: dict[str, Any]) -> list[str]:
    rows = {
        "summary": offer["summary"],
        "distribution": f"{offer['distribution']} {offer['version']}",
        "interface": offer["api"],
        "target": offer["target"],
        "declared in": offer["origin"],
        **{key: _detail(value) for key, value in offer["details"].items()},
        "problem": offer["problem"],
    }
    lines = [f"{offer['kind']}/{offer['name']}", *_aligned(rows)]
    return [*lines, *_option_lines(offer["options"])] if offer["options"] else lines


def _detail(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _aligned(rows: dict[str, Any]) -> list[str]:
    return [f"  {key:<14}{value}" for key, value in rows.items() if value not in (None, "")]


def _option_lines(options: list[dict[str, Any]]) -> list[str]:
    return ["  options, given as NAME:key=value:", *(f"    {describe(Option(**o))}: {o['help']}" for o in options)]


def _failure_text(failure: dict[str, Any]) -> list[str]:
    rows = {"problem": failure["cause"], "at": failure["place"]}
    return [f"{failure['distribution']} {failure['version']} failed", *_aligned(rows)]
