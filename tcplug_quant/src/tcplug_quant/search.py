"""Which 4-bit grid represents a quant group best.

A grid is 16 equally spaced values ``code · scale + low``. Six are tried for each group: the range of its values,
whole and clipped (outliers are rare and cost resolution), each also refitted to its codes by least squares. The grid
of least squared error wins. Scale and low are rounded to fp16, as stored, before codes are chosen.

Shapes: groups and codes ``[n, size]``, everything else ``[n, 1]``; all fp32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import attrs
import torch

CLIPS = (1.0, 0.93, 0.86)
"""Fractions of the range; found on eight matrices of Qwen2.5-Coder-0.5B."""

Grid = tuple[torch.Tensor, torch.Tensor]
"""Scale and low."""


@attrs.frozen(eq=False)
class Fit:
    """A grid for each group, the codes chosen with it, and the sum of squared errors."""

    codes: torch.Tensor
    scale: torch.Tensor
    low: torch.Tensor
    error: torch.Tensor


class Kind(ABC):
    """How a kind of grid begins and how it is refitted."""

    @abstractmethod
    def span(self, least: torch.Tensor, most: torch.Tensor, clip: float) -> Grid:
        """The grid over a fraction of the range ``least..most``."""

    @abstractmethod
    def refit(self, groups: torch.Tensor, codes: torch.Tensor) -> Grid:
        """The grid of least squared error for given codes; scale 0 where all codes agree."""

    @abstractmethod
    def stored(self, grid: Grid) -> Grid:
        """The grid as it reads back."""


class Asymmetric(Kind):
    """Scale and low are free."""

    def span(self, least: torch.Tensor, most: torch.Tensor, clip: float) -> Grid:
        width = most - least
        return width * clip / 15, least + width * ((1 - clip) / 2)

    def refit(self, groups: torch.Tensor, codes: torch.Tensor) -> Grid:
        code, value = codes.mean(1, keepdim=True), groups.mean(1, keepdim=True)
        away = codes - code
        scale = ratio((away * groups).sum(1, keepdim=True), away.square_().sum(1, keepdim=True))
        return scale, value - scale * code

    def stored(self, grid: Grid) -> Grid:
        scale, low = grid
        return scale.half().float(), low.half().float()


class Symmetric(Kind):
    """Code 8 is zero, so ``low = -8 · scale``; the side with one value more is the larger one's, by scale's sign."""

    def span(self, least: torch.Tensor, most: torch.Tensor, clip: float) -> Grid:
        scale = torch.where(most > -least, most, least) * (clip / -8)
        return scale, -8 * scale

    def refit(self, groups: torch.Tensor, codes: torch.Tensor) -> Grid:
        signed = codes - 8
        scale = ratio((signed * groups).sum(1, keepdim=True), signed.square_().sum(1, keepdim=True))
        return scale, -8 * scale

    def stored(self, grid: Grid) -> Grid:
        scale = grid[0].half().float()
        return scale, -8 * scale


def best_fit(groups: torch.Tensor, kind: Kind) -> Fit:
    """The best of the six grids for each group."""
    least, most = groups.aminmax(dim=1, keepdim=True)
    fits = []
    for clip in CLIPS:
        fits.append(encode(groups, kind.stored(kind.span(least, most, clip))))
        fits.append(encode(groups, kind.stored(kind.refit(groups, fits[-1].codes))))
    best = fits[0]
    for other in fits[1:]:
        best = better(best, other)
    return best


def encode(groups: torch.Tensor, grid: Grid) -> Fit:
    """Each value takes the code nearest to it."""
    scale, low = grid
    codes = (groups - low).mul_(ratio(torch.ones_like(scale), scale)).round_().clamp_(0, 15)
    error = (codes * scale).add_(low).sub_(groups).square_().sum(1, keepdim=True)
    return Fit(codes, scale, low, error)


def better(one: Fit, other: Fit) -> Fit:
    """The grid of less error, group by group; the first where they are equal."""
    win = other.error < one.error
    return Fit(
        codes=torch.where(win, other.codes, one.codes),
        scale=torch.where(win, other.scale, one.scale),
        low=torch.where(win, other.low, one.low),
        error=torch.where(win, other.error, one.error),
    )


def ratio(above: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
    """``above / below``, 0 where ``below`` is 0."""
    return (above / below).masked_fill_(below == 0, 0)
