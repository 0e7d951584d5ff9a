"""A coordinator whose runs go over the nodes that it is told, in the dtype that it is told, and whose logits show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch

from truecluster._cluster.coordinator import Coordinator
from truecluster._cluster.gathering import Found
from truecluster._pipeline.run import Run, Step
from truecluster._wire.steps import Opened, Page, Row
from truecluster.api import DType, NodeError
from truecluster.nn import PAGE

from .goldens import Case


class Chosen(Coordinator):
    """Nodes that have left are missed."""

    nodes_chosen: Sequence[str] = ()

    async def _enough(self) -> Found | None:
        there = {session.id: session for session in self.nodes.ready()}
        gone = [name for name in self.nodes_chosen if name not in there]
        if gone:
            raise NodeError(f"{', '.join(gone)} left while being checked; start it again and run the checks anew")
        sessions = [there[name] for name in self.nodes_chosen]
        return sessions, self._runs.plan(sessions)

    def choose(self, nodes: Sequence[str], dtype: DType) -> None:
        """For the runs to come."""
        self.nodes_chosen = nodes
        resources = self._runs._resources
        self._runs._resources = attrs.evolve(resources, model=attrs.evolve(resources.model, dtype=dtype))

    @contextmanager
    def over(self, nodes: Sequence[str], dtype: DType) -> Iterator[tuple[Run, list[torch.Tensor]]]:
        """A run, and what its head makes of its steps, piece by piece: logits fp32, filled while it is driven."""
        self.choose(nodes, dtype)
        run = self.create()
        assert run is not None
        try:
            yield run, self._overhear(run)
        finally:
            run.complete()
            self.release(run)

    def _overhear(self, run: Run) -> list[torch.Tensor]:
        heard: list[torch.Tensor] = []
        assert self._runs.live is not None
        stage = self._runs.live._own.stages[len(run.plan.stages) - 1]
        head: Any = stage._head

        def listen(hidden: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = head(hidden)
            heard.append(logits.cpu())
            return logits

        stage._head = listen
        return heard


def force(run: Run, cases: Sequence[Case]) -> None:
    """Every case as one step after its prompt, one after another, with every token of its answer given."""
    for number, case in enumerate(cases, 1):
        run.send(step_of(number, case))
        run.receive()


def step_of(number: int, case: Case) -> Step:
    """One step that asks for logits at each token of the answer; its pages are free once the next one comes."""
    return Step(
        rows=(Row(number, 0, len(case.fed), len(case.greedy)),),
        ids=case.fed,
        opened=(Opened(number),),
        pages=tuple(Page(number, page) for page in range(-(-len(case.fed) // PAGE))),
        released=(number - 1,) if number > 1 else (),
        prefill=True,
    )
