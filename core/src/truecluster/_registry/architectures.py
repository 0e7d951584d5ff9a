"""Which architecture runs a checkpoint of some model type."""

from __future__ import annotations

from collections.abc import Sequence

from truecluster.api import ArchitectureSpec, PluginError

from .failures import PluginFailure
from .offers import Offer
from .suggest import INSTALL, failed


def automatic(offers: Sequence[Offer], model_type: str, failures: Sequence[PluginFailure]) -> Offer:
    """The one offer that claims ``model_type``. Raises `PluginError` where none or several do."""
    claiming = [offer for offer in offers if model_type in _spec(offer).model_types]
    if not claiming:
        raise PluginError(_nobody(offers, model_type, failures))
    if len(claiming) > 1:
        raise PluginError(
            f"model type {model_type!r} is claimed by {' and by '.join(map(str, claiming))}; "
            "choose with --arch, or uninstall one of them"
        )
    return claiming[0]


def check_hosts(spec: ArchitectureSpec, model_type: str) -> None:
    """Raise `PluginError` unless ``spec`` runs ``model_type`` exactly."""
    able = (*spec.model_types, *spec.hosts)
    if model_type not in able:
        raise PluginError(
            f"architecture {spec.name!r} can't run a checkpoint of type {model_type!r}, only {', '.join(able)}; "
            "leave out --arch to choose by the checkpoint"
        )


def _nobody(offers: Sequence[Offer], model_type: str, failures: Sequence[PluginFailure]) -> str:
    hosts = [_spec(offer).name for offer in offers if model_type in _spec(offer).hosts]
    types = sorted({each for offer in offers for each in _spec(offer).model_types})
    parts = [
        f"no installed architecture runs model type {model_type!r} by itself; installed: {', '.join(types) or 'none'}",
        f"--arch {hosts[0]} can host it" if hosts else "",
        failed(failures),
        INSTALL,
    ]
    return "; ".join(filter(None, parts))


def _spec(offer: Offer) -> ArchitectureSpec:
    assert isinstance(offer.spec, ArchitectureSpec)
    return offer.spec
