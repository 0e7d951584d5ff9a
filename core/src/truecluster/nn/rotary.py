"""Rotary position embedding, in fp32 throughout.

Su et al. 2021 (RoFormer); halves rotated as in GPT-NeoX. Frequency rules follow ``rope_parameters`` of config.json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from truecluster.api import CheckpointError, Rotary


def inverse_frequencies(rotary: Rotary) -> torch.Tensor:
    """``[dim / 2]`` fp32, radians per position. Raises `CheckpointError` for a rule or number that isn't known."""
    exponents = torch.arange(0, rotary.dim, 2, dtype=torch.float32) / rotary.dim
    plain = 1.0 / rotary.theta**exponents
    try:
        rule = RULES[rotary.scaling]
    except KeyError:
        known = ", ".join(RULES)
        raise CheckpointError(f"rope_type {rotary.scaling!r} is not supported; supported: {known}") from None
    try:
        return rule(plain, dict(rotary.parameters))
    except KeyError as missing:
        raise CheckpointError(f"rope_type {rotary.scaling!r} needs {missing}, which the config lacks") from None


def _default(plain: torch.Tensor, parameters: Mapping[str, float]) -> torch.Tensor:
    return plain


def _linear(plain: torch.Tensor, parameters: Mapping[str, float]) -> torch.Tensor:
    return plain / parameters["factor"]


def _llama3(plain: torch.Tensor, parameters: Mapping[str, float]) -> torch.Tensor:
    """Long wavelengths are stretched by ``factor``, short ones kept, the band between is blended."""
    factor, old = parameters["factor"], parameters["original_max_position_embeddings"]
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    wavelength = 2 * math.pi / plain
    blend = ((old / wavelength - low) / (high - low)).clamp(0, 1)
    return (1 - blend) * plain / factor + blend * plain


RULES = {"default": _default, "linear": _linear, "llama3": _llama3}


def tables(frequencies: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine, each ``[n, dim / 2]`` fp32, for ``positions [n]``."""
    angles = positions.to(torch.float32)[:, None] * frequencies
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the first ``dim`` elements of every head of ``x [n, heads, head_dim]``; same dtype."""
    half = cos.shape[-1]
    first, second, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
    cos, sin = cos[:, None], sin[:, None]
    turned = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat([*(part.to(x.dtype) for part in turned), rest], dim=-1)
