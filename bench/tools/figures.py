"""What a row gives: figures, or a reason why it was skipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs


class Skip(Exception):
    """A row that can't be measured here, and why."""


@attrs.frozen(kw_only=True)
class Settings:
    """``runs`` of each figure; ``work`` is a folder that stays, for packed weights."""

    runs: int
    threads: int
    work: Path


@attrs.frozen(kw_only=True)
class Figure:
    """``samples`` in ``unit``, the best of which counts; ``how`` defaults to the row's method."""

    name: str
    samples: Sequence[float]
    unit: str
    higher: bool = True
    target: float | None = None
    how: str = ""

    @property
    def value(self) -> float:
        return max(self.samples) if self.higher else min(self.samples)

    @property
    def reached(self) -> bool | None:
        """``None`` without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.higher else self.value <= self.target

    def as_json(self) -> dict[str, Any]:
        own = attrs.asdict(self)
        own["samples"] = list(self.samples)
        return {**own, "value": self.value, "reached": self.reached}
