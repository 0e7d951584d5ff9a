"""What is installed, and what of it is broken."""

from __future__ import annotations

from collections.abc import Iterator

from truecluster._registry import KINDS, Offer, Registry
from truecluster._registry.offers import clash
from truecluster.api import PluginError, QuantizerSpec

from .finding import FAIL, WARN, Finding, split_remedy, without


def look(registry: Registry) -> Iterator[Finding]:
    """Imports the target of every offer."""
    offers = [offer for kind in KINDS for offer in registry.offers(kind)]
    installed = len({found.distribution for found in registry.found})
    remedy = "install some: pip install 'truecluster[default]'"
    text = f"{installed} installed with {len(offers)} offers; tc plugin list shows them"
    yield Finding("installed", text) if offers else Finding("installed", text, FAIL, remedy)
    for failure in registry.failures:
        text = f"{failure}{f', at {failure.place}' if failure.place else ''}"
        yield Finding(failure.distribution, text, FAIL, without(failure.distribution))
    groups = [group for kind in KINDS for group in registry.conflicts(kind)]
    for group in groups:
        wrong, remedy = split_remedy(clash(group))
        yield Finding(f"{group[0].kind}/{group[0].spec.name}", wrong, WARN, remedy)
    clashing = {offer for group in groups for offer in group}
    yield from filter(None, (_unusable(registry, offer) for offer in offers if offer not in clashing))


def _unusable(registry: Registry, offer: Offer) -> Finding | None:
    if isinstance(offer.spec, QuantizerSpec):
        return None
    try:
        registry.resolve(offer.kind, offer.spec.name)
    except PluginError as error:
        return Finding(f"{offer.kind}/{offer.spec.name}", str(error), FAIL, without(offer.distribution))
    return None
