"""A stage's thread: receive, compute, send. No event loop is crossed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import attrs
import torch

from truecluster._wire.steps import Kind, StepHeader, StepLimits, decode
from truecluster.api import Edge, EdgeBroken, EdgeClosed, EdgeEnded, NodeError, TrueClusterError

from .machines import STAGE, Machine, StageState
from .stage import Stage, answer, payload_dtype

LOG = logging.getLogger(__name__)
_READY, _EXECUTING = StageState.READY, StageState.EXECUTING  # an enum searches for the member that it is asked for


@attrs.define
class Progress:
    """What a heartbeat says: how many steps are finished, and since when the stage works on the next.

    The finished ones took ``worked_s`` seconds from their arrival to their sending; ``sent_bytes`` are headers and
    tensors that went out, without what a transport adds.
    """

    finished_steps: int = 0
    busy_since: float | None = None
    worked_s: float = 0.0
    sent_bytes: int = 0

    @property
    def busy_s(self) -> float | None:
        """Seconds that the stage has been at its step, ``None`` where it waits."""
        since = self.busy_since
        return None if since is None else time.monotonic() - since

    def finished(self, step: int, began: float, sent: int) -> None:
        """That step is done, which began at a time on the monotonic clock, and sent so many bytes."""
        self.busy_since = None
        self.worked_s += time.monotonic() - began
        self.sent_bytes += sent
        self.finished_steps = step + 1


class StageRunner:
    """Owns a stage and its two edges until it stops.

    ``on_fault`` is called from the stage's thread, once, unless the edges were closed by `stop`.
    """

    def __init__(
        self,
        stage: Stage,
        run: int,
        inbound: Edge,
        outbound: Edge,
        on_fault: Callable[[TrueClusterError], object],
    ) -> None:
        self.progress = Progress()
        self.machine = Machine(STAGE, StageState.READY)
        self.stage = stage
        self._run = run
        self._inbound = inbound
        self._outbound = outbound
        self._on_fault = on_fault
        self._next = 0
        self._header: StepHeader | None = None
        shape = stage.shape
        self._limits = StepLimits(rows=2 * shape.sequences, tokens=shape.max_tokens, context=shape.context)
        self._kinds = (Kind.HIDDEN_STATE,) if shape.takes_picked else (Kind.RUN_PREFILL, Kind.RUN_DECODE)
        self._due = (0 if shape.takes_ids else shape.hidden, shape.inbound)
        rows = (shape.max_tokens,) if shape.takes_ids else (shape.max_tokens, shape.hidden)
        self._buffer = torch.empty(rows, dtype=payload_dtype(shape))
        self._payload, self._count = self._buffer, shape.max_tokens
        self._thread = threading.Thread(target=self._work, name=f"stage {shape.span}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Wait for the thread and close its edges; says whether it ended in time (seconds)."""
        self.machine.try_to(StageState.STOPPING)
        self._inbound.abort()
        self._outbound.abort()
        if self._thread.ident is not None:  # a run may end before its stages were started
            self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._inbound.close()
        self._outbound.close()
        return self.machine.try_to(StageState.STOPPED)

    def _work(self) -> None:
        try:
            with self.stage.device.scope():
                while True:
                    self._step()
        except Exception as error:  # whatever it is, the run must learn of it
            self._end(error)

    def _step(self) -> None:
        data = self._inbound.recv(self._place)
        header = self._header
        assert header is not None
        self.machine.try_to(_EXECUTING)
        self.progress.busy_since = began = time.monotonic()
        results = self.stage.execute(header, self._payload)
        onward = answer(self.stage.shape, header, data, results)
        self._outbound.send(onward, results)
        sent = len(onward)
        for tensor in results:
            sent += tensor.nbytes
        self.progress.finished(header.step, began, sent)
        self.machine.try_to(_READY)

    def _place(self, data: bytes) -> Sequence[torch.Tensor]:
        header = decode(data, self._limits)
        if header.run != self._run:
            raise EdgeBroken(f"a step of run {header.run} came to a stage of run {self._run}")
        if header.step != self._next:
            raise EdgeBroken(f"step {header.step} came, step {self._next} is next")
        if header.kind not in self._kinds or (header.width, header.dtype) != self._due:
            raise self._not_due(header)
        self._next += 1
        self._header = header
        if self._count != header.count:
            self._payload, self._count = self._buffer[: header.count], header.count
        return [self._payload]

    def _not_due(self, header: StepHeader) -> EdgeBroken:
        """What comes in must be what the plan says that the stage before sends."""
        width, dtype = self._due
        return EdgeBroken(
            f"a {header.kind.name} of width {header.width} in {header.dtype.value} came to stage "
            f"{self.stage.shape.span}, which takes {self._kinds[0].name} of width {width} in {dtype.value}"
        )

    def _end(self, error: Exception) -> None:
        stopping = self.machine.state in (StageState.STOPPING, StageState.STOPPED)
        if stopping and isinstance(error, (EdgeClosed, EdgeEnded)):
            return
        if self.machine.try_to(StageState.FAULTED):
            self._on_fault(error if isinstance(error, TrueClusterError) else _unexpected(error, self.stage))


def _unexpected(error: Exception, stage: Stage) -> NodeError:
    LOG.error("stage %s failed", stage.shape.span, exc_info=error)
    return NodeError(f"stage {stage.shape.span} failed: {type(error).__name__}: {error}")
