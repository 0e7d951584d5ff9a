"""Weights that range: the shapes and numbers that a format meets, the awkward ones included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from .rules import ranging

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""What `WeightFormat.pack` takes."""
DRAWN = 15
"""Inputs that are tried besides those that always are."""


@attrs.frozen
class Weights:
    """The numbers that a rule was tried with: `tensor` makes the same ones, in new memory, every time.

    ``rows`` of ``None`` is a vector; ``values`` is a key of `VALUES`.
    """

    rows: int | None
    columns: int
    values: str = "normal"
    dtype: torch.dtype = torch.float32
    seed: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """``[rows, columns]``, of a vector ``[columns]``."""
        return (self.columns,) if self.rows is None else (self.rows, self.columns)

    def tensor(self) -> torch.Tensor:
        """The numbers in ``dtype``, contiguous."""
        random = torch.Generator().manual_seed(self.seed)
        normal = torch.randn(self.rows or 1, self.columns, generator=random, dtype=torch.float64)
        normal = normal if self.rows is None else normal[: self.rows]
        return VALUES[self.values](normal, self.dtype).to(self.dtype).view(self.shape)


def _normal(normal: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rows of unlike size, so that one can't pass for another."""
    return normal * 2.0 ** (torch.arange(len(normal))[:, None] % 5 - 2)


def _outliers(normal: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    normal[::2, normal.shape[1] // 2] = 1e4
    normal[::3, 0] = -1e4
    return normal


def _alone(normal: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One number a row, the last, and zeros."""
    normal[:, :-1] = 0
    return normal


def _tiny(normal: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rows of all sizes from 1 down to the smallest number of the dtype with all its bits, that one first."""
    return normal * torch.finfo(dtype).tiny ** (0.95 - torch.arange(len(normal), dtype=torch.float64)[:, None] % 9 / 10)


def _huge(normal: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Up to the largest number of the dtype."""
    return (normal / normal.abs().amax(1, keepdim=True)) * torch.finfo(dtype).max


VALUES: Mapping[str, Callable[[torch.Tensor, torch.dtype], torch.Tensor]] = {
    "normal": _normal,
    "negative": lambda normal, dtype: -normal.abs(),
    "constant": lambda normal, dtype: normal[:, :1].expand_as(normal).contiguous(),
    "zeros": lambda normal, dtype: torch.zeros_like(normal),
    "alone": _alone,
    "outliers": _outliers,
    "denormals": lambda normal, dtype: normal * torch.finfo(dtype).tiny / 8,
    "tiny": _tiny,
    "huge": _huge,
}
"""What numbers there are: made of normally distributed ``[rows, columns]`` in fp64."""

ROWS = (1, 2, 3, 0, 5, 9, None)
COLUMNS = (1, 2, 3, 7, 16, 31, 32, 33, 40, 63, 64, 65, 96, 100, 127, 128, 129, 130, 200, 255, 256, 257, 300)
"""Widths: one column, and those that fill the usual quant groups, or just don't."""
ORDERS = st.lists(st.integers(0, 8), max_size=12)
"""Rows in any order, some twice, or none; taken modulo the rows that there are."""
CUTS = st.builds(slice, st.none() | st.integers(0, 9), st.none() | st.integers(0, 12))
CORNERS = (Weights(1, 1), Weights(2, 1), Weights(0, 1), Weights(None, 3), Weights(3, 33), Weights(9, 300))
"""What is always tried, the smallest first."""

Rule = Callable[..., None]


def over_weights(
    values: Sequence[str] = ("normal",),
    dtypes: Sequence[torch.dtype] = DTYPES[:1],
    **others: tuple[st.SearchStrategy[Any], Any],
) -> Callable[[Rule], Rule]:
    """Try a rule with ``weights``: the corners, each of ``values`` and ``dtypes``, and what else hypothesis finds.

    ``others`` are further arguments: how each is drawn, and the one that goes with the corners.
    """
    unlike = [Weights(3, 40, kind, dtype) for kind in values for dtype in dtypes][1:]
    drawn = st.builds(
        Weights,
        rows=st.sampled_from(ROWS),
        columns=st.sampled_from(COLUMNS),
        values=st.sampled_from(list(values)),
        dtype=st.sampled_from(list(dtypes)),
        seed=st.integers(0, 9),
    )

    def decorate(rule: Rule) -> Rule:
        tried = given(weights=drawn, **{name: strategy for name, (strategy, _) in others.items()})(rule)
        for weights in reversed([*CORNERS, *unlike]):
            tried = example(weights=weights, **{name: usual for name, (_, usual) in others.items()})(tried)
        return settings(ranging, max_examples=DRAWN)(tried)

    return decorate


def difference(came: torch.Tensor, expected: torch.Tensor) -> str:
    """How a tensor differs from the expected one: its form, or the first place where they are unlike."""
    if (came.dtype, came.shape) != (expected.dtype, expected.shape):
        return f"{came.dtype} {list(came.shape)} instead of {expected.dtype} {list(expected.shape)}"
    unlike = came.ne(expected).nonzero()
    if not len(unlike):
        return "the same"
    place = tuple(unlike[0].tolist())
    return f"{came[place].item()!r} instead of {expected[place].item()!r} at {list(place)}; {len(unlike)} are unlike"
