"""A node's life: join, answer, host what it is told to host, and leave without a trace."""

from __future__ import annotations

import logging
import os
import platform
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import attrs
import torch
from anyio.abc import ByteStream, SocketAttribute
from anyio.to_thread import run_sync

import truecluster
from truecluster._pipeline.build import HandleCache
from truecluster._pipeline.dtypes import offered
from truecluster._registry import Registry
from truecluster._weights.store import Store
from truecluster._wire import messages as wire
from truecluster._wire.connection import Connection
from truecluster._wire.handshake import Purpose, prove_async, prover
from truecluster._wire.limits import MAX_SECTION
from truecluster.api import (
    EdgeBroken,
    EdgeEnded,
    EdgeTerms,
    EdgeTimeout,
    HandshakeError,
    NodeError,
    TransportError,
    TrueClusterError,
)

from .devices import Devices
from .errors import one_error
from .faults import load_fault, stage_fault
from .hosting import Hosting
from .transports import Transports

LOG = logging.getLogger(__name__)
EXECUTED = ("architecture", "format", "transport")
"""The kinds whose versions two ends of a run must agree on."""
SILENCE = 5
"""Heartbeats without a word from the coordinator after which it is given up."""
STOP_TIMEOUT = 10.0


@attrs.frozen(kw_only=True)
class NodeOptions:
    """What `tc node` was told. ``device`` is ``auto``, a kind or an id; ``threads`` bounds the CPU's."""

    host: str
    port: int
    key: bytes = attrs.field(repr=False)
    node_id: str
    work_dir: Path
    device: str = "auto"
    threads: int | None = None
    transport: str = "tcp"


class Node:
    """One worker."""

    def __init__(self, registry: Registry, options: NodeOptions, transports: Transports) -> None:
        self._registry = registry
        self._options = options
        self._transports = transports
        self._store = Store(options.work_dir)
        self._devices = Devices(registry)
        self._device = self._devices.choose(options.device)
        self._handles = HandleCache()
        self._hosting: Hosting | None = None
        self._host = ""
        self._heartbeat = 10.0

    async def serve(self) -> None:
        """Join and work until the coordinator says goodbye. Raises `NodeError` when it is lost."""
        control, ack, host = await self._join()
        self._host, self._heartbeat = host, ack.heartbeat_s
        bulk = Connection(await self._dial(Purpose.BULK, ack.bulk_ticket))
        try:
            with one_error():
                await self._work(control, bulk)
        except TransportError as error:
            where = f"{self._options.host}:{self._options.port}"
            raise NodeError(f"lost the coordinator at {where}: {error}; start it again, then this node") from error
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop_hosting()
                await control.aclose()
                await bulk.aclose()

    async def _work(self, control: Connection, bulk: Connection) -> None:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._receive_weights, bulk, control)
            await self._listen(control)
            tasks.cancel_scope.cancel()

    async def _join(self) -> tuple[Connection, wire.HelloAck, str]:
        stream = await self._dial(Purpose.CONTROL)
        host = str(stream.extra(SocketAttribute.local_address, ("memory",))[0])
        control = Connection(stream)
        await control.send(self._hello(host))
        answer = await control.receive()
        if isinstance(answer, wire.Error):
            raise HandshakeError(f"the coordinator refused this node: {answer.message}")
        if not isinstance(answer, wire.HelloAck):
            raise EdgeBroken(f"the coordinator answered HELLO with {type(answer).__name__}")
        LOG.info("joined %s:%s as %s on %s", self._options.host, self._options.port, self._id, self._device.id)
        return control, answer, host

    async def _dial(self, purpose: Purpose, ticket: bytes = b"") -> ByteStream:
        options = self._options
        stream = await self._transports.streams(options.transport).connect(options.host, options.port)
        try:
            await prove_async(stream, options.key, purpose, dialer=True)
            await stream.send(ticket) if ticket else None
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
        return stream

    @property
    def _id(self) -> str:
        return self._options.node_id

    def _hello(self, host: str) -> wire.Hello:
        offers = [(kind, offer) for kind in EXECUTED for offer in self._registry.offers(kind)]
        return wire.Hello(
            node_id=self._id,
            hostname=socket.gethostname(),
            truecluster=truecluster.__version__,
            python_version=platform.python_version(),
            torch_version=torch.__version__,
            platform=sys.platform,
            devices=self._devices.found,
            selected_device=self._device.id,
            dtypes=offered(self._devices.open(self._device, None)),
            edge_host=host,
            compat={f"{kind}/{offer.spec.name}": offer.version for kind, offer in offers},
            pid=os.getpid(),
        )

    async def _listen(self, control: Connection) -> None:
        while True:
            message = await self._next(control)
            if isinstance(message, wire.StopRun) and message.reason is wire.StopReason.SHUTDOWN:
                return
            if isinstance(message, wire.Error):
                raise NodeError(f"the coordinator ended the session: {message.message}")
            await self._handle(message, control)

    async def _next(self, control: Connection) -> wire.Message:
        with anyio.move_on_after(self._heartbeat * SILENCE):
            return await control.receive()
        raise EdgeTimeout(f"no word from the coordinator for {self._heartbeat * SILENCE:g} s")

    async def _handle(self, message: wire.Message, control: Connection) -> None:
        if isinstance(message, wire.Ping):
            await control.send(self._pong(message.number))
        elif isinstance(message, wire.Assignment):
            await self._assigned(message, control)
        elif isinstance(message, wire.Sample):
            if self._hosting is not None and message.run == self._hosting.run:
                self._hosting.sample(message)
        elif isinstance(message, wire.StopRun):
            await self._stop_run(message, control)
        else:
            raise EdgeBroken(f"a coordinator sent {type(message).__name__}, which only nodes send")

    def _pong(self, number: int) -> wire.Pong:
        progress = self._hosting.progress if self._hosting else None
        if progress is None:
            return wire.Pong(number=number, finished_step=0)
        return wire.Pong(
            number=number,
            finished_step=progress.finished_steps,
            busy_since_s=progress.busy_s,
            done_bytes=self._hosting.done_bytes if self._hosting else 0,
        )

    async def _assigned(self, assignment: wire.Assignment, control: Connection) -> None:
        if self._hosting is not None:
            message = f"run {assignment.run} came while run {self._hosting.run} is hosted here"
            await control.send(load_fault(assignment.run, NodeError(message)))
            return
        try:
            self._hosting = hosting = Hosting(
                assignment,
                self._registry,
                self._store,
                self._handles,
                self._devices.open(
                    self._devices.choose(assignment.device), assignment.threads or self._options.threads
                ),
                self._transports,
                self._terms,
            )
            need = await run_sync(hosting.need)
        except Exception as error:
            await self._failed(control, assignment.run, error)
        else:
            await control.send(need)

    def _terms(self, edge: str) -> EdgeTerms:
        return EdgeTerms(edge=edge, host=self._host, prove=prover(self._options.key, Purpose.EDGE))

    async def _receive_weights(self, bulk: Connection, control: Connection) -> None:
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
                message = await bulk.receive(place)
            except EdgeEnded:
                return  # control tells why
            if writing is not None:
                await writing.wait()
            writing = anyio.Event()
            buffers.reverse()
            self._tasks.start_soon(self._take, message, view, control, writing)

    async def _take(self, message: wire.Message, data: memoryview, control: Connection, done: anyio.Event) -> None:
        hosting = self._hosting
        try:
            if hosting is None or getattr(message, "run", None) != hosting.run:
                return  # of a run that was stopped meanwhile
            if isinstance(message, wire.WeightChunk):
                await run_sync(hosting.write, message, data)
            elif isinstance(message, wire.WeightsComplete):
                self._tasks.start_soon(self._load, hosting, message.outbound_ticket, control)
            else:
                raise EdgeBroken(f"{type(message).__name__} came on the bulk connection")
        except TransportError:
            raise
        except Exception as error:
            await self._failed(control, hosting.run if hosting else 0, error)
        finally:
            done.set()

    async def _load(self, hosting: Hosting, ticket: bytes, control: Connection) -> None:
        def on_fault(error: TrueClusterError) -> None:
            with suppress(TransportError):  # the coordinator is gone too
                anyio.from_thread.run(control.send, stage_fault(hosting.run, error), token=token)

        token = anyio.lowlevel.current_token()
        try:
            ready = await run_sync(partial(hosting.load, ticket, on_fault), abandon_on_cancel=True)
        except Exception as error:
            await self._failed(control, hosting.run, error)
        else:
            LOG.info("hosting %s of %s", hosting.assignment.span, hosting.assignment.model_name)
            await control.send(ready)

    async def _failed(self, control: Connection, run: int, error: Exception) -> None:
        if not isinstance(error, TrueClusterError):
            LOG.error("stage of run %s failed", run, exc_info=error)
        await control.send(load_fault(run, error))

    async def _stop_run(self, message: wire.StopRun, control: Connection) -> None:
        if self._hosting is not None and message.run == self._hosting.run:
            await self._stop_hosting()
        await control.send(wire.StageStopped(run=message.run))

    async def _stop_hosting(self) -> None:
        hosting, self._hosting = self._hosting, None
        if hosting is not None and not await run_sync(hosting.stop, STOP_TIMEOUT):
            raise NodeError(f"the stage of run {hosting.run} didn't stop within {STOP_TIMEOUT:g} s")
