"""A node's stay in a cluster, from its HELLO to the end of its control connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio
import anyio.lowlevel
from anyio.to_thread import run_sync

from truecluster._wire import messages as wire
from truecluster._wire.connection import Connection
from truecluster._wire.limits import MAX_SECTION
from truecluster._wire.silence import Silence
from truecluster.api import (
    EdgeBroken,
    EdgeEnded,
    EdgeTimeout,
    HandshakeError,
    NodeError,
    TransportError,
    TrueClusterError,
)

from .daemons import run_daemon
from .errors import one_error
from .faults import load_fault, stage_fault
from .hosting import Hosting

LOG = logging.getLogger(__name__)
BEATS = 10
"""Heartbeats without a word after which the coordinator is given up: it also embeds, samples and serves the API."""
WELCOME_TIMEOUT = 30.0
LEAVE_TIMEOUT = 2.0
"""Seconds that a stage gets to end when the node leaves."""


async def welcome(control: Connection) -> wire.HelloAck:
    """What the coordinator answers to HELLO. It may first have to open its model, and pings meanwhile."""
    patient = False
    while True:
        with anyio.move_on_after(WELCOME_TIMEOUT):
            answer = await control.receive()
            if isinstance(answer, wire.HelloAck):
                return answer
            if isinstance(answer, wire.Error):
                raise HandshakeError(f"the coordinator refused this node: {answer.message}")
            if not isinstance(answer, wire.Ping):
                raise EdgeBroken(f"the coordinator answered HELLO with {type(answer).__name__}")
            await control.send(wire.Pong(number=answer.number, finished_step=0))
            if answer.number > 1 and not patient:
                patient = True
                LOG.info("the coordinator doesn't take nodes yet, most likely it opens its model: waiting")
            continue
        raise EdgeTimeout(f"the coordinator did not answer HELLO, and said nothing for {WELCOME_TIMEOUT:g} s")


class Membership:
    """Answers the coordinator and hosts a stage at a time, which ``make`` makes of its assignment, blocking.

    ``heartbeat``: seconds between two PINGs.
    """

    def __init__(
        self, control: Connection, bulk: Connection, make: Callable[[wire.Assignment], Hosting], heartbeat: float
    ) -> None:
        self._control = control
        self._bulk = bulk
        self._make = make
        self._hosting: Hosting | None = None
        self._bearable = heartbeat * BEATS
        self._spare = False
        self._silence = Silence(self._patience)

    async def work(self) -> None:
        """Until the coordinator says goodbye; a stage that is left is ended.

        Raises `TransportError` when the coordinator is lost, and `NodeError` where the stage doesn't end in time.
        """
        lost = False
        try:
            with one_error():
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    tasks.start_soon(self._receive_weights)
                    tasks.start_soon(self._watch)
                    await self._listen()
                    tasks.cancel_scope.cancel()
        except TransportError:
            lost = True
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop_hosting(hurry=not lost)

    def _patience(self) -> float:
        """A coordinator has stages too, of the same model."""
        hosting = self._hosting
        return self._bearable if hosting is None else max(self._bearable, hosting.assignment.step_timeout_s)

    async def _watch(self) -> None:
        raise EdgeTimeout(f"no word from the coordinator for {await self._silence.too_long():.0f} s")

    async def _listen(self) -> None:
        while True:
            message = await self._control.receive()
            self._silence.heard()
            if isinstance(message, wire.StopRun) and message.reason is wire.StopReason.SHUTDOWN:
                LOG.info("the coordinator has ended the cluster, so this node ends too")
                return
            if isinstance(message, wire.Error):
                raise NodeError(f"the coordinator ended the session: {message.message}")
            await self._handle(message)

    async def _handle(self, message: wire.Message) -> None:
        if isinstance(message, wire.Ping):
            self._told(message.spare)
            await self._control.send(self._pong(message.number))
        elif isinstance(message, wire.Assignment):
            await self._assigned(message)
        elif isinstance(message, wire.Sample):
            if self._hosting is not None and message.run == self._hosting.run:
                self._hosting.sample(message)
        elif isinstance(message, wire.StopRun):
            await self._stop_run(message)
        else:
            raise EdgeBroken(f"a coordinator sent {type(message).__name__}, which only nodes send")

    def _told(self, spare: bool) -> None:
        if spare and not self._spare:
            LOG.info("the run at work does without this node: waiting as a spare")
        self._spare = spare

    def _pong(self, number: int) -> wire.Pong:
        if self._hosting is None:
            return wire.Pong(number=number, finished_step=0)
        progress = self._hosting.progress
        return wire.Pong(
            number=number,
            run=self._hosting.run,
            finished_step=progress.finished_steps,
            busy_since_s=progress.busy_s,
            done_bytes=self._hosting.done_bytes,
            worked_s=progress.worked_s,
            sent_bytes=progress.sent_bytes,
        )

    async def _assigned(self, assignment: wire.Assignment) -> None:
        if self._hosting is not None:
            message = f"run {assignment.run} came while run {self._hosting.run} is hosted here"
            await self._control.send(load_fault(assignment.run, NodeError(message)))
            return
        try:
            self._hosting = await run_sync(self._make, assignment)
        except Exception as error:
            await self._send_fault(assignment.run, error)
        else:
            self._tasks.start_soon(self._need, self._hosting)

    async def _need(self, hosting: Hosting) -> None:
        """Reading what is stored takes a while, in which heartbeats are answered."""
        try:
            need = await run_daemon(hosting.need)
        except Exception as error:
            await self._failed(hosting, error)
        else:
            await self._control.send(need)

    async def _receive_weights(self) -> None:
        """The bulk connection: pieces of units into the store, two buffers in turn, then the order to load."""
        buffers = [bytearray(MAX_SECTION), bytearray(MAX_SECTION)]
        writing: anyio.Event | None = None
        while True:
            view = memoryview(b"")

            def place(message: wire.Message, sizes: Sequence[int]) -> list[memoryview]:
                nonlocal view
                view = memoryview(buffers[0])[: sizes[0]] if sizes else view
                return [view] if sizes else []

            try:
                message = await self._bulk.receive(place)
            except EdgeEnded:
                return  # control tells why
            self._silence.heard()
            if writing is not None:
                await writing.wait()
            writing = anyio.Event()
            buffers.reverse()
            self._tasks.start_soon(self._take, message, view, writing)

    async def _take(self, message: wire.Message, data: memoryview, done: anyio.Event) -> None:
        hosting = self._hosting
        try:
            if hosting is None or getattr(message, "run", None) != hosting.run:
                return  # of a run that was stopped meanwhile
            if isinstance(message, wire.WeightChunk):
                await run_sync(hosting.write, message, data)
            elif isinstance(message, wire.WeightsComplete):
                self._tasks.start_soon(self._load, hosting, message)
            else:
                raise EdgeBroken(f"{type(message).__name__} came on the bulk connection")
        except TransportError:
            raise
        except Exception as error:
            await self._failed(hosting, error)
        finally:
            done.set()

    async def _load(self, hosting: Hosting, order: wire.WeightsComplete) -> None:
        def on_fault(error: TrueClusterError) -> None:
            with suppress(TransportError):  # the coordinator is gone too
                anyio.from_thread.run(self._control.send, stage_fault(hosting.run, error), token=token)

        token = anyio.lowlevel.current_token()
        try:
            ready = await run_daemon(partial(hosting.load, order, on_fault))
        except Exception as error:
            await self._failed(hosting, error)
        else:
            LOG.info("hosting %s of %s", hosting.assignment.span, hosting.assignment.model_name)
            await self._control.send(ready)

    async def _failed(self, hosting: Hosting | None, error: Exception) -> None:
        """Of a stage that is stopped already, nobody waits for a word."""
        if hosting is not None and hosting is self._hosting:
            await self._send_fault(hosting.run, error)

    async def _send_fault(self, run: int, error: Exception) -> None:
        if not isinstance(error, TrueClusterError):
            LOG.error("stage of run %s failed", run, exc_info=error)
        await self._control.send(load_fault(run, error))

    async def _stop_run(self, message: wire.StopRun) -> None:
        if self._hosting is not None and message.run == self._hosting.run:
            await self._stop_hosting(hurry=False)
        await self._control.send(wire.StageStopped(run=message.run))

    async def _stop_hosting(self, hurry: bool) -> None:
        hosting, self._hosting = self._hosting, None
        if hosting is None:
            return
        timeout = LEAVE_TIMEOUT if hurry else hosting.assignment.stop_timeout_s
        if not await run_sync(hosting.stop, timeout):
            raise NodeError(f"the stage of run {hosting.run} didn't stop within {timeout:g} s")
