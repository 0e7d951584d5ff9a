"""What a model's own files say of how it ends and how it samples: ``generation_config.json`` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster._engine.requests import MAX_ID, Sampling
from truecluster.api import CheckpointError

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "typical_p": (None, 1),
    "no_repeat_ngram_size": (None, 0),
    "num_beams": (None, 1),
    "bad_words_ids": (None, []),
    "suppress_tokens": (None, []),
}
"""Settings that change answers and aren't honoured, with the values that change nothing."""

DRAWN: Mapping[str, tuple[float, float, float]] = {
    "temperature": (0.0, 100.0, 1.0),
    "top_k": (0, MAX_ID, 0),
    "top_p": (0.0, 1.0, 1.0),
    "min_p": (0.0, 1.0, 0.0),
}
ALWAYS: Mapping[str, tuple[float, float, float]] = {"repetition_penalty": (0.01, 100.0, 1.0)}
"""Settings that are honoured, where an author samples and anyway: least, most, and what stands for none. A whole one
takes no fraction.
"""


@attrs.frozen(kw_only=True)
class GenerationDefaults:
    """How a model's author samples. ``ignored`` names settings that would change answers and aren't honoured."""

    sampling: Sampling
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, generation: Mapping[str, Any]) -> GenerationDefaults:
        """As transformers reads them: greedy unless ``do_sample``. Raises `CheckpointError` naming what is wrong."""
        always, drawn = _numbers(generation, ALWAYS), _numbers(generation, DRAWN)
        return cls(
            sampling=Sampling(**always, **(drawn if generation.get("do_sample") is True else {})),
            ignored=tuple(name for name, neutral in NEUTRAL.items() if generation.get(name) not in neutral),
        )


def _numbers(generation: Mapping[str, Any], kind: Mapping[str, tuple[float, float, float]]) -> dict[str, Any]:
    return {name: _number(generation, name, *limits) for name, limits in kind.items()}


def _number(generation: Mapping[str, Any], name: str, least: float, most: float, none: float) -> float:
    value = generation.get(name)
    if value is None:
        return none
    kinds = (int,) if isinstance(none, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        allowed = f"a whole number from {least} to {most}" if kinds == (int,) else f"from {least:g} to {most:g}"
        raise CheckpointError(f"the model's generation defaults: {name} must be {allowed}, not {value!r:.60}")
    return value


def eos_ids(settings: Mapping[str, Any], source: str) -> list[int]:
    """``eos_token_id``, an id or a list of them. Raises `CheckpointError` naming the ``source``."""
    given = settings.get("eos_token_id")
    ids = given if isinstance(given, list) else [] if given is None else [given]
    if any(isinstance(id, bool) or not isinstance(id, int) for id in ids):
        raise CheckpointError(f"the model's {source}: eos_token_id must be an id or a list of ids, not {given!r:.60}")
    return ids
