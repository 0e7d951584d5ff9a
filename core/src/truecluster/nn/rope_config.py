"""Rotary embedding as a config.json says it: ``rope_theta`` with ``rope_scaling``, or transformers 5's
``rope_parameters``, which holds both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truecluster.api import CheckpointError, Rotary

from .fields import flag, mapping, number
from .rope_rules import ORIGINAL, Rule, find_rule
from .rotary import attention_factor, inverse_frequencies

THETA = 10000.0
"""The base where a config.json names none."""
WITHOUT_EFFECT = ("finetuned", ORIGINAL)
"""Keys that models carry and transformers doesn't read, for a rule that has no such number."""


def read_rotary(raw: Mapping[str, Any], dim: int) -> Rotary:
    """The rotary embedding of heads of ``dim`` elements, with transformers' defaults.

    Raises `CheckpointError` for a rule, number or key that isn't supported, before any weight is read.
    """
    if dim % 2:
        raise CheckpointError(f"config: heads of {dim} elements can't be rotated; head_dim must be even")
    given = _merged(raw)
    theta = number({"rope_theta": _first(given.pop("rope_theta", None), raw.get("rope_theta"), THETA)}, "rope_theta")
    name = _name(given.pop("rope_type", "default"))
    rule = find_rule(name)
    if raw.get("rotary_dim") not in (None, dim):
        raise CheckpointError(f"config: rotary_dim is {raw['rotary_dim']!r:.60}; only all {dim} of a head is supported")
    _refuse_partial(_first(given.pop("partial_rotary_factor", None), raw.get("partial_rotary_factor"), 1))
    if ORIGINAL in rule.needed:
        given[ORIGINAL] = _first(raw.get(ORIGINAL), given.get(ORIGINAL), raw.get("max_position_embeddings"))
    rotary = Rotary(dim, theta, name, _numbers(name, rule, given))
    inverse_frequencies(rotary)
    attention_factor(rotary)
    return rotary


def _merged(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Both spellings in one, without what is null. Raises `CheckpointError` where they contradict each other."""
    found: dict[str, Any] = {}
    for key in ("rope_parameters", "rope_scaling"):
        for name, value in _given(raw, key).items():
            if found.setdefault(name, value) != value:
                raise CheckpointError(f"config: {name} is {found[name]!r} in rope_parameters and {value!r} in {key}")
    return found


def _given(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = mapping(raw, key)
    nested = sorted(name for name, inner in value.items() if isinstance(inner, Mapping))
    if nested:
        raise CheckpointError(f"config: {key} of its own for {', '.join(nested)} is not supported")
    named = {"rope_type": value.get("type"), **value}
    named.pop("type", None)
    return {name: inner for name, inner in named.items() if inner is not None}


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise CheckpointError(f"config: rope_type must be a text, not {value!r:.60}")
    return "default" if value == "none" else value  # GGUF's word


def _refuse_partial(value: object) -> None:
    if value != 1:
        raise CheckpointError(f"config: partial_rotary_factor {value!r} is not supported; only 1 is")


def _numbers(name: str, rule: Rule, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    known = (*rule.needed, *rule.optional)
    unknown = sorted(set(given) - set(known) - set(WITHOUT_EFFECT))
    if unknown:
        takes = ", ".join(known) or "no numbers"
        raise CheckpointError(f"config: rope_type {name!r} doesn't know {', '.join(unknown)}; it takes {takes}")
    return tuple((key, _value(given, key)) for key in known if key in given)


def _value(given: Mapping[str, Any], key: str) -> Any:
    value = given[key]
    if key == "truncate":
        return float(flag(given, key))
    if key == "factors" and isinstance(value, list):
        return tuple(number({key: item}, key) for item in value)
    return number(given, key)
