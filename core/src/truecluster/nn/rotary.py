"""Rotary position embedding, in fp32 throughout.

Su et al. 2021 (RoFormer); halves rotated as in GPT-NeoX.
"""

from __future__ import annotations

import torch

from truecluster.api import CheckpointError, Rotary

from .rope_rules import Numbers, Rule, find_rule

STRETCH = 256
"""Positions whose angles are computed at once where a sequence grows by one token a step."""


def inverse_frequencies(rotary: Rotary) -> torch.Tensor:
    """``[dim / 2]`` fp32, radians per position. Raises `CheckpointError` for a rule or number that isn't known."""
    rule, numbers = _rule(rotary)
    exponents = torch.arange(0, rotary.dim, 2, dtype=torch.float32) / rotary.dim
    try:
        found = rule.frequencies(1.0 / rotary.theta**exponents, rotary.theta, numbers)
    except (ArithmeticError, ValueError):
        found = torch.tensor([torch.nan])
    if not found.isfinite().all():
        raise CheckpointError(
            f"rope_type {rotary.scaling!r} makes no frequencies of rope_theta {rotary.theta:g} and {numbers}"
        )
    return found


def attention_factor(rotary: Rotary) -> float:
    """What cosine and sine are multiplied by, and so, squared, every attention score. Errors as above."""
    rule, numbers = _rule(rotary)
    return rule.attention(numbers)


def _rule(rotary: Rotary) -> tuple[Rule, Numbers]:
    rule, numbers = find_rule(rotary.scaling), dict(rotary.parameters)
    for name in rule.needed:
        if name not in numbers:
            raise CheckpointError(f"rope_type {rotary.scaling!r} needs {name!r}, which the config lacks")
    return rule, numbers


def tables(
    frequencies: torch.Tensor, positions: torch.Tensor, factor: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine times the attention ``factor``, each ``[n, dim / 2]`` fp32, for ``positions [n]``."""
    angles = torch.outer(positions, frequencies)
    cos, sin = angles.cos(), angles.sin()
    return (cos, sin) if factor == 1 else (cos * factor, sin * factor)


class Angles:
    """The tables of one rotary for step after step, bit for bit those of `tables`.

    A row that grows by a token a step takes its share of one stretch of positions, computed ahead.
    """

    def __init__(self, rotary: Rotary, device: torch.device | str) -> None:
        self._frequencies = inverse_frequencies(rotary).to(device)
        self._factor = attention_factor(rotary)
        self._start = -STRETCH
        self._ahead: list[tuple[torch.Tensor, torch.Tensor]] = []

    def of(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each ``[n, dim / 2]`` fp32, for any ``positions [n]``."""
        return tables(self._frequencies, positions, self._factor)

    def at(self, position: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each ``[1, dim / 2]`` fp32, for one position."""
        at = position - self._start
        if not 0 <= at < STRETCH:
            self._start, at = position, 0
            stretch = torch.arange(position, position + STRETCH, dtype=torch.int32, device=self._frequencies.device)
            self._ahead = list(zip(*(table[:, None].unbind() for table in self.of(stretch)), strict=True))
        return self._ahead[at]


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the first ``dim`` elements of every head of ``x [n, heads, head_dim]``; same dtype."""
    half = cos.shape[-1]
    first, second, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
    cos, sin = cos[:, None], sin[:, None]
    turned = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat([*(part.to(x.dtype) for part in turned), rest], dim=-1)
