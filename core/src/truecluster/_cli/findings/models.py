"""Where models come from: folders of downloads, and whether more can be fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from truecluster._registry import Offer, Registry
from truecluster._registry.targets import load_target
from truecluster.api import CheckpointSource, CheckpointSpec, OpenOptions

from .finding import FAIL, WARN, Finding, broken, split_remedy
from .folders import folder

PATIENCE_S = 10.0
"""For the answer of one source."""


def look(registry: Registry) -> Iterator[Finding]:
    """Asks each source over the network, if it is one that fetches."""
    offers = registry.offers("checkpoint")
    for offer in offers:
        try:
            yield from _source(offer, load_target(offer)())
        except (Exception, SystemExit) as error:
            yield broken(offer, error)
    if not offers:
        yield Finding("any", "no model can be opened", FAIL, "install a source: pip install 'truecluster[default]'")


def _source(offer: Offer, source: CheckpointSource) -> Iterator[Finding]:
    assert isinstance(offer.spec, CheckpointSpec)
    kept = source.folder(OpenOptions())
    reason = source.unreachable(PATIENCE_S)
    if reason is not None:
        wrong, remedy = split_remedy(reason)
        yield Finding(offer.spec.name, wrong, WARN, remedy)
    else:
        how = "can fetch models" if kept else "opens what lies on this machine"
        yield Finding(offer.spec.name, f"{how}: {', '.join(offer.spec.forms)}")
    if kept:
        yield folder(f"{offer.spec.name} downloads", Path(kept), "choose another folder with --hf-cache-dir")
