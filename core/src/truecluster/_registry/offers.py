"""What a plugin offers: its hook implementations are called one by one, each under its own ``try``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from truecluster.api import PluginError, QuantizerSpec, Spec

from .kinds import KINDS, AnySpec


@attrs.frozen(eq=False)
class Offer:
    """A spec and the distribution that makes it."""

    spec: AnySpec
    distribution: str
    version: str

    @property
    def kind(self) -> str:
        """The spec's kind, a key of `KINDS`."""
        return self.spec.KIND

    def __str__(self) -> str:
        return f"{self.spec.name!r} of {self.distribution} {self.version}"


class WrongAPI(PluginError):
    """A spec was written for another number of its kind's interface than this core has."""


def specs_of(hook: str, implementation: Callable[[], Any]) -> list[AnySpec]:
    """Call an implementation and check what it yields. Raises `WrongAPI`, `PluginError`, or what it raises."""
    specs = list(implementation())
    allowed = tuple(kind.spec for kind in KINDS.values() if kind.hook == hook)
    for spec in specs:
        if not isinstance(spec, allowed):
            wanted = " or ".join(each.__name__ for each in allowed)
            raise PluginError(f"{hook} yields {spec!r}, which is no {wanted}")
        _check_api(spec)
    return specs


def _check_api(spec: Spec | QuantizerSpec) -> None:
    if spec.api == spec.API:
        return
    remedy = "upgrade truecluster" if spec.api > spec.API else "upgrade the plugin"
    raise WrongAPI(
        f"{spec.KIND} {spec.name!r} is written for interface {spec.api}, this truecluster has {spec.API}; {remedy}"
    )


def conflicts(offers: tuple[Offer, ...]) -> Iterator[tuple[Offer, ...]]:
    """Groups of offers of one kind that share a name."""
    for name in dict.fromkeys(offer.spec.name for offer in offers):
        same = tuple(offer for offer in offers if offer.spec.name == name)
        if len(same) > 1:
            yield same
