"""The engine's end of a run: steps go in at the first stage, one answer each comes back from the last."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import attrs
import torch

from truecluster._plan import RunPlan
from truecluster._wire.steps import Kind, Opened, Page, Row, StepHeader, StepLimits, decode, encode
from truecluster.api import Edge, EdgeBroken, NodeError, TransportError, TrueClusterError
from truecluster.nn import torch_dtype

from .answers import Answer, ids_tensor, unpack
from .machines import Machine, RunState
from .sampling import SampleUpdate

_RUN_PREFILL, _RUN_DECODE, _TOKEN = Kind.RUN_PREFILL, Kind.RUN_DECODE, Kind.TOKEN
"""An enum searches for the member that it is asked for."""


@attrs.define(kw_only=True)
class Step:
    """One pass of a ragged group: ``ids`` are the tokens of ``rows``, one after another. Not changed once it is made.

    Without rows it only releases.
    """

    rows: tuple[Row, ...]
    ids: Sequence[int]
    opened: tuple[Opened, ...] = ()
    pages: tuple[Page, ...] = ()
    released: tuple[int, ...] = ()
    prefill: bool = False


@attrs.frozen(kw_only=True)
class Capacity:
    """What all stages together can hold: the least of them.

    ``cached_starts``: whether a sequence may begin with pages that another one filled, which recurrent layers can't.
    """

    pages: int
    sequences: int
    max_tokens: int
    context: int
    cached_starts: bool


class Run:
    """One provisioned pipeline. The engine's thread sends and receives; any thread may report a fault.

    ``update`` carries sampling parameters to the head's stage; ``machine`` has come to running. A run has exactly one
    outcome: completed or faulted.
    """

    def __init__(
        self,
        plan: RunPlan,
        capacity: Capacity,
        to_first: Edge,
        from_last: Edge,
        update: Callable[[SampleUpdate], object],
        machine: Machine[RunState],
    ) -> None:
        self.plan = plan
        self.capacity = capacity
        self.update = update
        self.machine = machine
        self.in_flight = 0
        self.sent_bytes = 0
        """Headers and tokens that went to the first stage."""
        self._to_first = to_first
        self._from_last = from_last
        self._sent = 0
        self._answered = 0
        self._awaited: deque[int] = deque()
        self._lock = threading.Lock()
        self._fault: TrueClusterError | None = None
        self._ended = threading.Event()
        self._when_ended: Callable[[], None] = lambda: None
        self._limits = StepLimits(rows=2 * capacity.sequences, tokens=capacity.max_tokens)
        self._ids = self._answer = torch.empty(capacity.max_tokens, dtype=torch.int32)
        self._came: list[torch.Tensor] = []

    def send(self, step: Step) -> None:
        """Inject a step. Raises the run's fault."""
        assert self.in_flight < self.plan.depth, "a step was sent without credit"
        header = StepHeader(
            kind=_RUN_PREFILL if step.prefill else _RUN_DECODE,
            run=self.plan.run,
            step=self._sent,
            count=len(step.ids),
            rows=step.rows,
            opened=step.opened,
            pages=step.pages,
            released=step.released,
        )
        data, ids = encode(header), ids_tensor(step.ids)
        try:
            self._to_first.send(data, [ids])
        except TransportError as error:
            raise self.fault(error) from error
        self._sent += 1
        self.sent_bytes += len(data) + ids.nbytes
        self._awaited.append(sum([row.n_logits for row in step.rows]))
        self.in_flight += 1

    def receive(self) -> Answer:
        """Wait for the next answer: a token per wanted logit row, in the order of the step's rows."""
        try:
            self._from_last.recv(self._place)
        except TransportError as error:
            raise self.fault(error) from error
        self._answered += 1
        self._awaited.popleft()
        self.in_flight -= 1
        return unpack(self._came)

    def _place(self, data: bytes) -> Sequence[torch.Tensor]:
        header = decode(data, self._limits)
        if (header.kind, header.run, header.step) != (_TOKEN, self.plan.run, self._answered):
            raise EdgeBroken(f"answer {header.step} of run {header.run} came, {self._answered} is next")
        if header.count != self._awaited[0]:
            raise EdgeBroken(f"an answer of {header.count} tokens came, {self._awaited[0]} were asked for")
        if self._answer.shape[0] != header.count:
            self._answer = self._ids[: header.count]
        _, *more = header.payload()
        self._came = [self._answer, *[torch.empty(size, dtype=torch_dtype(kind)) for kind, size in more]]
        return self._came

    def fault(self, reason: TrueClusterError) -> TrueClusterError:
        """End the run for ``reason``, unless it has ended; returns what it ended for. From any thread.

        An edge that breaks is often noticed before the node's own word of why; that word replaces it.
        """
        with self._lock:
            first = self.machine.try_to(RunState.FAULTED)
            better = isinstance(self._fault, TransportError) and not isinstance(reason, TransportError)
            if first or better:
                self._fault = reason
        if first:
            self._end()
        return self._fault or NodeError("the run has ended")

    def complete(self) -> None:
        """End the run since nothing more is asked of it."""
        if self.machine.try_to(RunState.COMPLETED):
            self._end()

    @property
    def answered(self) -> int:
        """How many steps have been answered. From any thread."""
        return self._answered

    @property
    def failure(self) -> TrueClusterError | None:
        """Why the run faulted."""
        return self._fault

    @property
    def ended(self) -> bool:
        """Whether the run has its outcome."""
        return self._ended.is_set()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call once the run has its outcome, from whatever thread ends it; at once if it has."""
        self._when_ended = call
        if self.ended:
            call()

    def _end(self) -> None:
        self._ended.set()
        self._when_ended()
        self._to_first.abort()
        self._from_last.abort()
