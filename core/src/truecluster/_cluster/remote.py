"""One stage on a node, as the coordinator sees it: its words are awaited in order, its faults at any time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio

from truecluster._pipeline.runner import Progress
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._plan import StagePlan
from truecluster._wire import messages as wire
from truecluster.api import EdgeBroken, NodeError, TransportError, TrueClusterError

from .routes import EdgeUnreachable
from .session import NodeSession

Word = TypeVar("Word", wire.Need, wire.LoadComplete, wire.StageStopped)


class RemoteStage:
    """``on_fault`` learns of every fault, once the stage is watched."""

    def __init__(self, session: NodeSession, run: int, plan: StagePlan) -> None:
        self.session = session
        self.plan = plan
        self._run = run
        self._words: dict[type, wire.Message] = {}
        self._changed = anyio.Event()
        self.fault: TrueClusterError | None = session.lost
        self._on_fault: Callable[[TrueClusterError], object] = lambda error: None
        session.on_message, session.on_lost = self._hear, self._failed

    def watch(self, on_fault: Callable[[TrueClusterError], object]) -> None:
        """Report faults from now on, and at once the one that there was."""
        self._on_fault = on_fault
        if self.fault is not None:
            on_fault(self.fault)

    async def expect(self, kind: type[Word], timeout: float | None = None) -> Word:
        """The stage's word of that kind. Raises its fault, or `NodeError` when it says nothing (seconds)."""
        with anyio.move_on_after(timeout):
            while self.fault is None or (kind is wire.StageStopped and self.session.lost is None):
                word = self._words.get(kind)
                if isinstance(word, kind):
                    return word
                await self._changed.wait()
            raise self.fault
        self.session.failures += 1
        raise NodeError(f"node {self.session.id} didn't answer with {kind.__name__} within {timeout:g} s")

    async def sample(self, update: SampleUpdate) -> None:
        """Give sampling parameters to the head. Where the connection is lost, its listener notices, and the step that
        waits for them times out; what no message can say is a fault of the stage, since nobody awaits this."""
        try:
            with suppress(TransportError):
                await self.session.control.send(update.message(self._run))
        except ValueError as error:
            self._failed(NodeError(f"node {self.session.id} can't be told how to sample: {error}"))

    async def stop(self, reason: wire.StopReason, timeout: float) -> None:
        """End the stage; a node that can't be told is lost. Raises what `expect` raises (seconds)."""
        if self.session.lost is None:
            try:
                await self.session.control.send(wire.StopRun(run=self._run, reason=reason))
                await self.expect(wire.StageStopped, timeout)
            except TransportError as error:
                self.session.lose(str(error))

    @property
    def progress(self) -> Progress:
        """How far it is, as its node said with the latest heartbeat."""
        pong = self.session.pong
        if pong.run != self._run:
            return Progress()
        return Progress(
            finished_steps=pong.finished_step,
            busy_since=None if pong.busy_since_s is None else time.monotonic() - pong.busy_since_s,
            worked_s=pong.worked_s,
            sent_bytes=pong.sent_bytes,
        )

    def has_said(self, kind: type[Word]) -> bool:
        """Whether the stage's word of that kind has come."""
        return kind in self._words

    def _hear(self, message: wire.Message) -> None:
        if getattr(message, "run", None) != self._run:
            return  # of an earlier run
        if isinstance(message, wire.StageFault):
            self.session.failures += message.reason is wire.FaultReason.LOAD_FAILED
            self._failed(self._error(message))
        self._words[type(message)] = message
        self._wake()

    def _error(self, fault: wire.StageFault) -> TrueClusterError:
        text = f"node {self.session.id}: {fault.message}"
        if fault.reason is wire.FaultReason.EDGE_UNREACHABLE:
            return EdgeUnreachable(fault.edge, text)
        return EdgeBroken(text) if fault.reason is wire.FaultReason.EDGE_LOST else NodeError(text)

    def _failed(self, error: TrueClusterError) -> None:
        if self.fault is None or isinstance(self.fault, TransportError):
            self.fault = error
        self._on_fault(error)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
