"""The rules that make rotary frequencies, by the names that ``rope_type`` has in a config.json.

The numbers of a rule have the names of ``rope_parameters``. ``factors`` is our own word for what GGUF keeps of a rule:
what it has made of each frequency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch

from truecluster.api import CheckpointError

Numbers = Mapping[str, Any]
ORIGINAL = "original_max_position_embeddings"
"""The context in tokens that the model was trained with before it was stretched."""


def _default(plain: torch.Tensor, theta: float, numbers: Numbers) -> torch.Tensor:
    return plain


def _linear(plain: torch.Tensor, theta: float, numbers: Numbers) -> torch.Tensor:
    return plain.div(numbers["factor"])


def _llama3(plain: torch.Tensor, theta: float, numbers: Numbers) -> torch.Tensor:
    """Long wavelengths are stretched by ``factor``, short ones kept, the band between is blended."""
    factor, old, low, high = (
        float(numbers[name]) for name in ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor")
    )
    wavelength = 2 * math.pi / plain
    blend = ((old / wavelength - low) / (high - low)).clamp(0, 1)
    return (1 - blend) * plain / factor + blend * plain


def _yarn(plain: torch.Tensor, theta: float, numbers: Numbers) -> torch.Tensor:
    """Peng et al. 2023: what turns often within the trained context is kept, what turns rarely is stretched."""
    factor, old, half = float(numbers["factor"]), float(numbers[ORIGINAL]), len(plain)

    def turning(times: float) -> float:
        """The index of the frequency that turns so often within the trained context."""
        return half * math.log(old / (times * 2 * math.pi)) / math.log(theta)

    low, high = turning(numbers.get("beta_fast") or 32), turning(numbers.get("beta_slow") or 1)
    if numbers.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * half - 1)
    stretched = ((torch.arange(half, dtype=torch.float32) - low) / (high - low or 0.001)).clamp(0, 1)
    return stretched * plain / factor + (1 - stretched) * plain


def _yarn_attention(numbers: Numbers) -> float:
    """As given, else ``0.1 ln(factor) + 1``; with both mscales the ratio of the two, as DeepSeek has it."""
    given, factor = numbers.get("attention_factor"), numbers["factor"]
    if given is not None:
        return float(given)

    def magnitude(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    over, under = numbers.get("mscale"), numbers.get("mscale_all_dim")
    return magnitude(over) / magnitude(under) if over and under else magnitude(1)


def _factors(plain: torch.Tensor, theta: float, numbers: Numbers) -> torch.Tensor:
    factors = torch.tensor(numbers["factors"], dtype=torch.float32)
    if factors.shape != plain.shape:
        raise CheckpointError(f"rope_type 'factors' has {len(factors)} factors for {len(plain)} frequencies")
    return plain / factors


def _unscaled(numbers: Numbers) -> float:
    return 1.0


@attrs.frozen
class Rule:
    """``frequencies(plain, theta, numbers)``; ``needed`` and ``optional`` are the names of its numbers."""

    frequencies: Callable[[torch.Tensor, float, Numbers], torch.Tensor]
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    attention: Callable[[Numbers], float] = _unscaled


RULES: Mapping[str, Rule] = {
    "default": Rule(_default),
    "linear": Rule(_linear, ("factor",)),
    "llama3": Rule(_llama3, ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor")),
    "yarn": Rule(
        _yarn,
        ("factor", ORIGINAL),
        ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
        _yarn_attention,
    ),
    "factors": Rule(_factors, ("factors",)),
}


REMEDIES: Mapping[str, str] = {
    "dynamic": ", or take the rule out of its config.json: up to max_position_embeddings tokens nothing changes",
}


def find_rule(name: str) -> Rule:
    """Raises `CheckpointError` with the remedy for a rule that isn't supported."""
    if name in RULES:
        return RULES[name]
    raise CheckpointError(
        f"rope_type {name!r} is not supported; supported: {', '.join(RULES)}; "
        f"use a model with one of them{REMEDIES.get(name, '')}"
    )
