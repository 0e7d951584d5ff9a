"""Kernels are not chosen by name: every one that this machine can run is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from truecluster.api import Kernel, KernelSpec

from .offers import Offer


@attrs.frozen(eq=False)
class Kernels:
    """``available`` as (name, rank, kernel), highest rank first; ``unavailable``: name → why this machine can't.

    ``failures``: of those that aren't, the offers that raised, and what.
    """

    available: tuple[tuple[str, int, Kernel], ...]
    unavailable: Mapping[str, str]
    failures: tuple[tuple[Offer, Exception], ...] = ()


def usable(offers: Iterable[Offer], resolve: Callable[[Offer], type[Any]]) -> Kernels:
    """Make each of the offered kernels, and ask it; one that raises costs only itself."""
    available, unavailable, failures = [], {}, []
    for offer in sorted(offers, key=_rank, reverse=True):
        try:
            kernel = resolve(offer)()
            reason = kernel.unavailable()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            failures.append((offer, error))
        if reason is None:
            available.append((offer.spec.name, _rank(offer), kernel))
        else:
            unavailable[offer.spec.name] = reason
    return Kernels(tuple(available), unavailable, tuple(failures))


def _rank(offer: Offer) -> int:
    assert isinstance(offer.spec, KernelSpec)
    return offer.spec.rank
