"""From a spec's ``module:Name`` to the class."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from truecluster.api import PluginError, QuantizerSpec, Spec

from .failures import remedy
from .kinds import KINDS
from .offers import Offer
from .places import of_class, of_error

MEND = "mend it, or the target of its spec"


def target_module(offer: Offer) -> str:
    """The module that the offer's target is in."""
    assert isinstance(offer.spec, Spec)
    return offer.spec.target.partition(":")[0]


def load_target(offer: Offer) -> type[Any]:
    """Import what the offer names and check its base classes. Raises `PluginError` naming distribution and file."""
    if isinstance(offer.spec, QuantizerSpec):
        raise PluginError(f"quantizer {offer} is a recipe, not a class")
    target = _imported(offer, offer.spec.target)
    bases = KINDS[offer.kind].bases(offer.spec)
    if not bases:
        raise _refused(offer, "can't be used: its spec offers nothing; say what it offers in the spec", offer.origin)
    missing = [base for base in bases if not (isinstance(target, type) and issubclass(target, base))]
    if missing:
        wanted = " and ".join(f"truecluster.api.{base.__name__}" for base in bases)
        raise _refused(offer, f"is not a subclass of {wanted}; derive it from that", of_class(target) or offer.origin)
    if inspect.isabstract(target):
        lacking = ", ".join(sorted(target.__abstractmethods__))
        raise _refused(offer, f"doesn't implement {lacking}; add that", of_class(target) or offer.origin)
    return target  # type: ignore[no-any-return]


def _imported(offer: Offer, target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        place = of_error(error, module)
        fix = remedy(error) if place else None
        cause = f"{type(error).__name__}: {error}"
        raise _refused(offer, f"can't be imported ({cause}); {fix or MEND}", place or offer.origin) from error


def _refused(offer: Offer, why: str, place: str) -> PluginError:
    assert isinstance(offer.spec, Spec)
    return PluginError(f"{offer.kind} {offer}: {offer.spec.target} {why}; at {place}")
