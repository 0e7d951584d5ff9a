"""From a spec's ``module:Name`` to the class."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from truecluster.api import PluginError, QuantizerSpec

from .kinds import KINDS
from .offers import Offer


def load_target(offer: Offer) -> type[Any]:
    """Import what the offer names and check its base classes. Raises `PluginError` naming the distribution."""
    if isinstance(offer.spec, QuantizerSpec):
        raise PluginError(f"quantizer {offer} is a recipe, not a class")
    target = _imported(offer, offer.spec.target)
    bases = KINDS[offer.kind].bases(offer.spec)
    missing = [base for base in bases if not (isinstance(target, type) and issubclass(target, base))]
    if missing or not bases:
        wanted = " and ".join(f"truecluster.api.{base.__name__}" for base in bases) or "anything: it offers nothing"
        raise PluginError(f"{offer.kind} {offer}: {offer.spec.target} is not a subclass of {wanted}")
    if inspect.isabstract(target):
        lacking = ", ".join(sorted(target.__abstractmethods__))
        raise PluginError(f"{offer.kind} {offer}: {offer.spec.target} doesn't implement {lacking}")
    return target  # type: ignore[no-any-return]


def _imported(offer: Offer, target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {error}"
        raise PluginError(f"{offer.kind} {offer}: {target} can't be imported ({cause})") from error
