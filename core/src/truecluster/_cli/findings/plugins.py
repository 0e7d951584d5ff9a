"""What is installed, and what of it is broken."""

from __future__ import annotations

from collections.abc import Iterator

from truecluster._registry import KINDS, Offer, Registry
from truecluster._registry.offers import clash
from truecluster.api import PluginError, QuantizerSpec

from .finding import FAIL, WARN, Finding, split_remedy


def look(registry: Registry) -> Iterator[Finding]:
    """Imports the target of every offer."""
    offers = [offer for kind in KINDS for offer in registry.offers(kind)]
    installed = len({found.distribution for found in registry.found})
    remedy = "install some: pip install 'truecluster[default]'"
    text = f"{installed} installed with {len(offers)} offers; tc plugin list shows them"
    yield Finding("installed", text) if offers else Finding("installed", text, FAIL, remedy)
    for failure in registry.failures:
        text = f"{failure}{f', at {failure.place}' if failure.place else ''}"
        leave = f"or leave it out with --without-plugins {failure.distribution}"
        yield Finding(failure.distribution, text, FAIL, f"upgrade or uninstall it, {leave}")
    for kind in KINDS:
        for group in registry.conflicts(kind):
            wrong, remedy = split_remedy(clash(group))
            yield Finding(f"{kind}/{group[0].spec.name}", wrong, WARN, remedy)
    yield from filter(None, (_broken(registry, offer) for offer in offers))


def _broken(registry: Registry, offer: Offer) -> Finding | None:
    clashes = any(offer in group for group in registry.conflicts(offer.kind))
    if clashes or isinstance(offer.spec, QuantizerSpec):
        return None
    try:
        registry.resolve(offer.kind, offer.spec.name)
    except PluginError as error:
        remedy = f"upgrade or uninstall it, or leave it out with --without-plugins {offer.distribution}"
        return Finding(f"{offer.kind}/{offer.spec.name}", str(error), FAIL, remedy)
    return None
