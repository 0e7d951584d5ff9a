"""Logits and tokens against the reference's, and the reference's tokens against the golden ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import torch

from truecluster._plan import RunPlan, StagePlan
from truecluster.api import DType

from .goldens import Case

ROUNDOFF = {DType.FP32: 2.0**-15, DType.BF16: 2.0**-8, DType.FP16: 2.0**-11}
"""Of fp32: 15 bits, which processor kernels make of activations over quantized weights; torch's products err less."""
ROUNDINGS = 12
"""So many roundings, all in one direction, are forgiven: thirty blocks round far more often, but in all directions.
transformers errs by four in bf16 and by five in fp16, on the same prompts.
"""
DECIDABLE = 0.05
"""A step whose two best logits lie nearer than this may go either way, in any dtype."""


@attrs.frozen(kw_only=True)
class Outcome:
    """One run. ``error`` is of all logits, relative by the Euclidean norm; ``equal`` of ``decidable`` tokens agree.

    ``firm``: whether all those agree whose margin is larger than what two logits may err.
    """

    stages: tuple[str, ...]
    edges: tuple[str, ...]
    equal: int
    decidable: int
    error: float
    allowed: float
    firm: bool

    @property
    def good(self) -> bool:
        return self.firm and self.error <= self.allowed


def compare(plan: RunPlan, heard: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> Outcome:
    """What a run's head gave, case by case, against what the reference gave."""
    roundoff = max(ROUNDOFF[each] for s in plan.stages for each in (s.dtypes.compute, s.dtypes.residual))
    allowed, found, reference = ROUNDINGS * roundoff, torch.cat([*heard]), torch.cat([*wanted])
    steps = list(_steps(found, reference))
    least = max(DECIDABLE, 2 * allowed * float(reference.abs().max()))
    return Outcome(
        stages=tuple(named(stage) for stage in plan.stages[1:-1]),
        edges=tuple(edge.dtype.value for edge in plan.edges[1:-1]),
        equal=sum(same for same, margin in steps if margin >= DECIDABLE),
        decidable=sum(margin >= DECIDABLE for _, margin in steps),
        error=float((found - reference).norm() / reference.norm()),
        allowed=allowed,
        firm=all(same for same, margin in steps if margin >= least),
    )


def _steps(found: torch.Tensor, reference: torch.Tensor) -> Iterator[tuple[bool, float]]:
    """Whether the likeliest token is the same, and by how much it is the likeliest."""
    best = reference.topk(2, -1)
    same = found.argmax(-1) == best.indices[:, 0]
    return zip(same.tolist(), (best.values[:, 0] - best.values[:, 1]).tolist(), strict=True)


def golden(logits: Sequence[torch.Tensor], cases: Sequence[Case]) -> tuple[int, int]:
    """How many of the decidable golden tokens are the likeliest, and how many there are."""
    same = [
        int(row.argmax()) == token
        for rows, case in zip(logits, cases, strict=True)
        for row, token, margin in zip(rows, case.greedy, case.margins, strict=True)
        if margin >= DECIDABLE
    ]
    return sum(same), len(same)


def named(stage: StagePlan) -> str:
    """A stage's node with what it computes in."""
    compute, residual = stage.dtypes.compute, stage.dtypes.residual
    return f"{stage.node} {compute.value}" + ("" if compute is residual else f" (residual {residual.value})")
