"""What a plugin offers: its hook implementations are called one by one, each under its own ``try``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from truecluster.api import CheckpointSpec, QuantizerSpec, Spec

from .kinds import KINDS, AnySpec
from .places import Flaw, of_function


@attrs.frozen(eq=False)
class Offer:
    """A spec and the distribution that makes it; ``origin`` is the file and line that declare it."""

    spec: AnySpec
    distribution: str
    version: str
    origin: str

    @property
    def kind(self) -> str:
        """The spec's kind, a key of `KINDS`."""
        return self.spec.KIND

    def __str__(self) -> str:
        return f"{self.spec.name!r} of {self.distribution} {self.version}"


class WrongAPI(Flaw):
    """A spec was written for another number of its kind's interface than this core has."""


def specs_of(hook: str, implementation: Callable[[], Any]) -> list[AnySpec]:
    """Call an implementation and check what it yields. Raises `WrongAPI`, `Flaw`, or what it raises."""
    specs, place = implementation(), of_function(implementation)
    if not isinstance(specs, Iterable):
        raise Flaw(f"{hook} returns {specs!r}, which is no iterable of specs; yield them", place)
    return [_checked(hook, spec, place) for spec in specs]


def _checked(hook: str, spec: Any, place: str) -> AnySpec:
    allowed = tuple(kind.spec for kind in KINDS.values() if kind.hook == hook)
    if not isinstance(spec, allowed):
        wanted = " or ".join(each.__name__ for each in allowed)
        raise Flaw(f"{hook} yields {spec!r}, which is no {wanted}; yield only those", place)
    _check_api(spec, place)
    return spec


def _check_api(spec: Spec | QuantizerSpec, place: str) -> None:
    if spec.api == spec.API:
        return
    too_new = spec.api > spec.API
    age, remedy = ("newer", "upgrade truecluster") if too_new else ("older", "upgrade the plugin")
    asked = f"{spec.KIND} {spec.name!r} is written for interface {spec.api}"
    raise WrongAPI(f"{asked}, {age} than the {spec.API} of this truecluster; {remedy}", place)


def conflicts(offers: tuple[Offer, ...]) -> Iterator[tuple[Offer, ...]]:
    """Groups of offers of one kind that share a name, or of checkpoint sources that share a form."""
    claimed = [_claims(offer) for offer in offers]
    groups = dict.fromkeys(
        tuple(offer for offer, claims in zip(offers, claimed, strict=True) if claim in claims)
        for claim in itertools.chain.from_iterable(claimed)
    )
    yield from (group for group in groups if len(group) > 1)


def clash(offers: tuple[Offer, ...]) -> str:
    """What is wrong with offers that `conflicts` found."""
    made = list(dict.fromkeys(f"{offer.distribution} {offer.version}" for offer in offers))
    remedy = "uninstall one of them, or leave one out with --without-plugins" if len(made) > 1 else "upgrade the plugin"
    how = f"by {' and by '.join(made)}" if len(made) > 1 else f"{len(offers)} times by {made[0]}"
    places = " and ".join(dict.fromkeys(offer.origin for offer in offers))
    claim = next(each for each in _claims(offers[0]) if all(each in _claims(offer) for offer in offers))
    return f"{offers[0].kind} {claim} is offered {how}; {remedy}; at {places}"


def _claims(offer: Offer) -> list[str]:
    """What no two offers of a kind may have both, as a message names it."""
    claims, spec = [repr(offer.spec.name)], offer.spec
    if isinstance(spec, CheckpointSpec):
        claims += [f"form {form.lower() if form[0] == '*' else form!r}" for form in spec.forms if form != "FOLDER"]
        claims += [f"folder with {marker!r}" for marker in spec.markers if "FOLDER" in spec.forms]
    return claims
