"""The same weights on this machine's processor, in fp32, by the reference kernel: what devices are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from truecluster._cluster.model import ClusterModel
from truecluster._pipeline.build import HandleCache, StageFacts, build_stage
from truecluster._pipeline.stage import Stage
from truecluster._registry import Registry, Selection
from truecluster._wire.steps import Kind, StepHeader
from truecluster.api import DType, Dtypes, Span
from truecluster.nn import PAGE

from .cluster import step_of
from .goldens import Case

KERNELS = "tcplug-cpu-kernels"


def reference(model: ClusterModel, cases: Sequence[Case]) -> list[torch.Tensor]:
    """Logits at each token of each answer, fp32 ``[tokens, vocab]``."""
    most = max(len(case.fed) for case in cases)
    stage = _whole(model, most)
    with stage.device.scope():
        return [_logits(stage, number, case) for number, case in enumerate(cases, 1)]


def _whole(model: ClusterModel, most: int) -> Stage:
    bound = model.bound
    span = Span(0, bound.config.layers, embed=True, head=True)
    registry = Registry.installed(Selection(deny=(KERNELS,)))
    slots = dict.fromkeys(slot for part in span.parts() for slot in bound.architecture.slots(bound.config, part))
    facts = StageFacts(
        span=span,
        architecture=bound.architecture,
        config=bound.config,
        dtypes=Dtypes(DType.FP32, DType.FP32),
        inbound=DType.INT32,
        outbound=DType.INT32,
        units=model.catalog.units(slots),
        pages=-(-most // PAGE),
        sequences=1,
        max_tokens=most,
        step_timeout=60.0,
    )
    device = registry.resolve("device", "cpu")().open("cpu")
    return build_stage(facts, registry, device, model.catalog.read, HandleCache())


def _logits(stage: Stage, number: int, case: Case) -> torch.Tensor:
    step = step_of(number, case)
    header = StepHeader(
        kind=Kind.RUN_PREFILL,
        run=0,
        step=number - 1,
        count=len(step.ids),
        rows=step.rows,
        opened=step.opened,
        pages=step.pages,
        released=step.released,
    )
    head: Any = stage._head
    stage._apply(header)
    logits: torch.Tensor = head(stage._compute(header, torch.tensor(step.ids, dtype=torch.int32)))
    return logits
