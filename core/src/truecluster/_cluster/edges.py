"""The coordinator's ends of a run's edges: to its own stages, and to the nodes' beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import anyio
from anyio.to_thread import run_sync

from truecluster._node.transports import Transports
from truecluster._pipeline.local import local_edge
from truecluster._plan import EdgePlan, RunPlan, StagePlan
from truecluster.api import COORDINATOR, DeviceContext, Edge, EdgeTerms

Role = Literal["producer", "consumer"]


class OwnEdges:
    """``terms`` makes what a transport needs for an edge whose other end is the node that hosts the given stage.

    `offer` first; then every ticket of another consumer goes into `tickets`; then `open`.
    """

    def __init__(
        self,
        plan: RunPlan,
        transports: Transports,
        device: DeviceContext,
        terms: Callable[[EdgePlan, int], EdgeTerms],
    ) -> None:
        self.tickets: dict[str, bytes] = {}
        self._plan = plan
        self._transports = transports
        self._device = device
        self._terms = terms
        self._ends: dict[tuple[str, Role], Edge] = {}
        self._remote: list[tuple[EdgePlan, Role, int]] = []
        for edge in plan.edges:
            self._sort(edge)

    def _sort(self, edge: EdgePlan) -> None:
        """Both ends here: a local edge. One end here: ours to open."""
        far = [stage for stage in (edge.producer, edge.consumer) if stage is not None and not self._is_own(stage)]
        if not far:
            self._ends[edge.id, "producer"], self._ends[edge.id, "consumer"] = local_edge()
        elif len(far) == 1:
            self._remote.append((edge, "consumer" if edge.producer == far[0] else "producer", far[0]))

    def _is_own(self, stage: int) -> bool:
        return self._plan.stages[stage].node == COORDINATOR

    def offer(self) -> None:
        """Be ready for the producers that are on nodes."""
        for edge, role, far in self._remote:
            if role == "consumer":
                self.tickets[edge.id] = self._transports.edges(edge.transport).offer(self._terms(edge, far))

    async def open(self) -> None:
        """Open every end that is here, all at once."""
        async with anyio.create_task_group() as tasks:
            for edge, role, far in self._remote:
                tasks.start_soon(self._open, edge, role, far)

    async def _open(self, edge: EdgePlan, role: Role, far: int) -> None:
        transport = self._transports.edges(edge.transport)
        opening = partial(transport.open, self._terms(edge, far), self.tickets[edge.id], role, self._device)
        try:
            self._ends[edge.id, role] = await run_sync(opening, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            self._transports.discard(edge.transport)
            raise

    def of_stage(self, stage: StagePlan) -> tuple[Edge, Edge]:
        """The inbound and the outbound end of a stage of the coordinator."""
        return self._ends[stage.inbound, "consumer"], self._ends[stage.outbound, "producer"]

    def of_engine(self) -> tuple[Edge, Edge]:
        """The end that leads to the first stage, and the one that comes from the last."""
        return self._ends[self._plan.edges[0].id, "producer"], self._ends[self._plan.edges[-1].id, "consumer"]

    def close(self) -> None:
        """End every edge."""
        for end in self._ends.values():
            end.close()
