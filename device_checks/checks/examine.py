"""Everything that is checked: each node alone, then all of them in both orders, in every dtype that they have."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from truecluster._cli.options import say
from truecluster._cluster.model import ClusterModel
from truecluster.api import DType

from .cluster import Chosen, force
from .compare import Outcome, compare, golden
from .generate import generate
from .goldens import Case
from .reference import reference
from .report import Findings

DTYPES = (DType.FP32, DType.BF16, DType.FP16)


def examine(made: Chosen, model: ClusterModel, cases: Sequence[Case]) -> Findings:
    """Blocking; each run is announced on standard error."""
    wanted = reference(model, cases)
    hellos = {session.id: session.hello for session in made.nodes.ready()}
    outcomes = [
        _measured(made, nodes, dtype, wanted, cases)
        for nodes in orders(list(hellos))
        for dtype in DTYPES
        if any(dtypes.compute is dtype for node in nodes for dtypes in hellos[node].dtypes)
    ]
    together = orders(list(hellos))[-1]
    return Findings(
        model=model.name,
        weights=model.recipe.name,
        nodes=list(hellos.values()),
        golden=golden(wanted, cases),
        outcomes=outcomes,
        generated=(together, generate(made, together, model.dtype, cases[0])),
    )


def orders(names: Sequence[str]) -> list[list[str]]:
    """Each name alone, then all, then all the other way round."""
    alone = [[name] for name in names]
    return alone if len(names) == 1 else [*alone, list(names), list(reversed(names))]


def _measured(
    made: Chosen, nodes: Sequence[str], dtype: DType, wanted: Sequence[torch.Tensor], cases: Sequence[Case]
) -> Outcome:
    say(f"checking {', '.join(nodes)} in {dtype.value}")
    with made.over(nodes, dtype) as (run, heard):
        force(run, cases)
        return compare(run.plan, heard, wanted)
