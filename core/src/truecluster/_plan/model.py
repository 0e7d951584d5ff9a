"""The plan of a run (gguf-pipeline-orchestration.md, section 3), as plain values that can be sent."""

from __future__ import annotations

from enum import Enum

import attrs

from truecluster.api import DType, Dtypes, EdgeRole, Span


class EdgeKind(str, Enum):
    """What an edge carries: token ids to the first stage, hidden rows between stages, tokens from the last one."""

    TOKEN_IN = "token-in"
    ACTIVATION = "activation"
    TOKEN_OUT = "token-out"


class Route(str, Enum):
    """How an edge is opened: by its producer, by its consumer, or by both, at the coordinator in between."""

    DIRECT = "direct"
    REVERSED = "reversed"
    RELAYED = "relayed"


@attrs.frozen(kw_only=True)
class StagePlan:
    """One stage. ``count`` is the run's number of stages; ``threads`` bounds the host's compute threads."""

    index: int
    count: int
    node: str
    span: Span
    inbound: str
    outbound: str
    dtypes: Dtypes
    threads: int | None = None


@attrs.frozen(kw_only=True)
class EdgePlan:
    """One edge: exactly one producer and one consumer, stage indices, ``None`` for the engine.

    ``dtype`` is int32 for tokens; hidden rows travel in the wider residual of the two stages, which changes no bits
    between stages of one kind.
    ``id`` is unique among all runs of a coordinator.
    """

    id: str
    kind: EdgeKind
    producer: int | None
    consumer: int | None
    transport: str
    dtype: DType
    route: Route = Route.DIRECT

    def dials(self, role: EdgeRole) -> bool:
        """Whether that end dials; one that doesn't is dialled."""
        return self.route is Route.RELAYED or (self.route is Route.DIRECT) is (role == "producer")


@attrs.frozen(kw_only=True)
class RunPlan:
    """Stages in the order in which a step passes them, and the edges around them: ``edges[i]`` enters stage i."""

    run: int
    model: str
    stages: tuple[StagePlan, ...]
    edges: tuple[EdgePlan, ...]

    @property
    def depth(self) -> int:
        """Steps that may be in flight: one in every stage, and one on its way."""
        return len(self.stages) + 1

    def edge(self, id: str) -> EdgePlan:
        """The edge of that id."""
        return next(edge for edge in self.edges if edge.id == id)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that host a stage, each once, in order."""
        return tuple(dict.fromkeys(stage.node for stage in self.stages))
