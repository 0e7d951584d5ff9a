"""What a user gives an offer as ``key=value``, read as the types that its spec declares."""

from __future__ import annotations

import math
from collections.abc import Mapping

from truecluster.api import Option, OptionValue, PlannerSpec, PluginError

from .offers import Offer
from .suggest import near

BOOLS = {"true": True, "false": False}


def options_of(offer: Offer) -> tuple[Option, ...]:
    """What the offer can be given; nothing for kinds that have no options."""
    return offer.spec.options if isinstance(offer.spec, PlannerSpec) else ()


def read_options(offer: Offer, given: Mapping[str, str]) -> dict[str, OptionValue | None]:
    """A value for every declared option, its default where none is given.

    Raises `PluginError` for one that isn't declared, or whose text isn't of its type.
    """
    declared = {option.name: option for option in options_of(offer)}
    for key in given:
        if key not in declared:
            raise PluginError(_unknown(offer, key, declared))
    return {
        name: _read(offer, option, given[name]) if name in given else option.default
        for name, option in declared.items()
    }


def _read(offer: Offer, option: Option, text: str) -> OptionValue:
    try:
        return _parse(option.type, text)
    except (ValueError, KeyError):
        wanted = {"bool": "true or false", "int": "a whole number", "float": "a number"}[option.type]
        raise PluginError(
            f"option {option.name}={text} of {offer.kind} {offer.spec.name!r} is not {wanted}: {option.help}"
        ) from None


def _parse(kind: str, text: str) -> OptionValue:
    if kind == "bool":
        return BOOLS[text.lower()]
    if kind == "int":
        return int(text)
    if kind == "float":
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(text)
        return number
    return text


def _unknown(offer: Offer, key: str, declared: Mapping[str, Option]) -> str:
    parts = [
        f"{offer.kind} {offer.spec.name!r} has no option {key!r}",
        near(key, declared),
        f"its options: {', '.join(map(describe, declared.values()))}" if declared else "it has none",
    ]
    return "; ".join(filter(None, parts))


def describe(option: Option) -> str:
    """Name, type and default on one line."""
    default = "" if option.default is None else f", default {shown(option.default)}"
    return f"{option.name} ({option.type}{default})"


def shown(value: OptionValue) -> str:
    """A value as a user would type it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
