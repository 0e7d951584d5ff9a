"""Reading one field of a config.json. A field that is null counts as absent.

All raise `CheckpointError` naming the field, what it is and what it may be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from truecluster.api import CheckpointError

Raw = Mapping[str, Any]


def positive(raw: Raw, key: str, default: int | None = None, *, most: int = 2**31 - 1) -> int:
    """A whole number from 1 to ``most``; without a ``default`` it must be there."""
    value = _present(raw, key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"config: {key} must be a positive whole number, not {value!r:.60}")
    if value > most:
        raise CheckpointError(f"config: {key} is {value:.6g}; at most {most} is supported")
    return value


def number(raw: Raw, key: str, default: float | None = None) -> float:
    """A positive number that fp32 can hold with room to compute; without a ``default`` it must be there."""
    value = _present(raw, key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e30:
        raise CheckpointError(f"config: {key} must be a positive number, not {value!r:.60}")
    return float(value)


def flag(raw: Raw, key: str, default: bool = False) -> bool:
    """A yes or no."""
    value = _present(raw, key, default)
    if not isinstance(value, bool):
        raise CheckpointError(f"config: {key} must be true or false, not {value!r:.60}")
    return value


def choice(raw: Raw, key: str, default: str, among: Collection[str]) -> str:
    """One of the texts ``among``."""
    value = _present(raw, key, default)
    if not isinstance(value, str) or value not in among:
        raise CheckpointError(f"config: {key} {value!r:.60} is not supported; supported: {', '.join(among)}")
    return value


def ids(raw: Raw, key: str) -> tuple[int, ...]:
    """A token id, or a list of them; none where it is absent."""
    value = raw.get(key)
    found = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(id, bool) or not isinstance(id, int) for id in found):
        raise CheckpointError(f"config: {key} must be a token id or a list of them, not {value!r:.60}")
    return tuple(found)


def mapping(raw: Raw, key: str) -> Raw:
    """An object; empty where it is absent."""
    value = raw.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise CheckpointError(f"config: {key} must be an object, not {value!r:.60}")
    return value or {}


def layer_types_of(raw: Raw) -> list[str]:
    """``layer_types``; empty where it is absent."""
    kinds = _present(raw, "layer_types", [])
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise CheckpointError(f"config: layer_types must be a list of texts, not {kinds!r:.60}")
    return kinds


def _present(raw: Raw, key: str, default: Any) -> Any:
    value = raw.get(key)
    if value is None and default is None:
        raise CheckpointError(f"config: {key} is missing")
    return default if value is None else value
