"""What a model's own files say of how it ends and how it samples: ``generation_config.json`` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster.api import CheckpointError

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "top_k": (None, 0),
    "min_p": (None, 0),
    "typical_p": (None, 1),
    "repetition_penalty": (None, 1),
    "no_repeat_ngram_size": (None, 0),
    "num_beams": (None, 1),
    "bad_words_ids": (None, []),
    "suppress_tokens": (None, []),
}
"""Settings that change answers and aren't honoured, with the values that change nothing."""


@attrs.frozen(kw_only=True)
class GenerationDefaults:
    """``temperature`` 0 is greedy. ``ignored`` names settings of the model's that would change its answers."""

    temperature: float
    top_p: float
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, generation: Mapping[str, Any]) -> GenerationDefaults:
        """As transformers reads them: greedy unless ``do_sample``. Raises `CheckpointError` naming what is wrong."""
        sampled = generation.get("do_sample") is True
        numbers = {name: _number(generation, name, most) for name, most in (("temperature", 100.0), ("top_p", 1.0))}
        return cls(
            temperature=numbers["temperature"] if sampled else 0.0,
            top_p=numbers["top_p"] if sampled else 1.0,
            ignored=tuple(name for name, neutral in NEUTRAL.items() if generation.get(name) not in neutral),
        )


def _number(generation: Mapping[str, Any], name: str, most: float) -> float:
    value = generation.get(name)
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise CheckpointError(f"the model's generation defaults: {name} must be from 0 to {most:g}, not {value!r:.60}")
    return float(value)


def eos_ids(settings: Mapping[str, Any], source: str) -> list[int]:
    """``eos_token_id``, an id or a list of them. Raises `CheckpointError` naming the ``source``."""
    given = settings.get("eos_token_id")
    ids = given if isinstance(given, list) else [] if given is None else [given]
    if any(isinstance(id, bool) or not isinstance(id, int) for id in ids):
        raise CheckpointError(f"the model's {source}: eos_token_id must be an id or a list of ids, not {given!r:.60}")
    return ids
