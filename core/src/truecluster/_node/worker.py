"""A node's life: join, answer, host what it is told to host, and leave without a trace."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import attrs
import torch
from anyio.abc import ByteStream, SocketAttribute
from anyio.to_thread import run_sync

import truecluster
from truecluster._pipeline.build import HandleCache
from truecluster._pipeline.dtypes import offered
from truecluster._registry import Registry
from truecluster._weights.store import DEFAULT_LIMIT, Store
from truecluster._wire import messages as wire
from truecluster._wire.addresses import shown
from truecluster._wire.connection import Connection
from truecluster._wire.handshake import NoAnswer, Purpose, prove_async, prover
from truecluster._wire.limits import UNTIL_STOPPED
from truecluster.api import EdgeTerms, HandshakeError, NodeError, TransportError

from .addresses import EdgeAddress
from .attempts import Attempts
from .devices import Devices
from .hosting import Hosting
from .membership import Membership, welcome
from .speed import measured
from .transports import Transports

LOG = logging.getLogger(__name__)
EXECUTED = ("architecture", "format", "transport")
"""The kinds whose versions two ends of a run must agree on."""


@attrs.frozen(kw_only=True)
class NodeOptions:
    """What `tc node` was told. ``device`` is ``auto``, a kind or an id; ``threads`` bounds the CPU's.

    ``any_id``: the coordinator may give another id where this one is taken. ``max_memory`` bounds in bytes what the
    node may use, ``cache`` what the store keeps of weights that nobody uses. ``join_timeout`` is for how many seconds a
    coordinator that is away is looked for; 0 takes one look, and doesn't look for one that was lost.
    """

    host: str
    port: int
    key: bytes = attrs.field(repr=False)
    node_id: str
    any_id: bool = False
    work_dir: Path
    cache: int = DEFAULT_LIMIT
    device: str = "auto"
    threads: int | None = None
    transport: str = "tcp"
    max_memory: int | None = None
    join_timeout: float = 0.0
    edges: EdgeAddress = attrs.field(factory=EdgeAddress)


class Node:
    """One worker."""

    def __init__(self, registry: Registry, options: NodeOptions, transports: Transports) -> None:
        self._registry = registry
        self._options = options
        self._transports = transports
        self._store = Store(options.work_dir, options.cache)
        self._devices = Devices(registry)
        self._device = self._devices.choose(options.device)
        self._handles = HandleCache()
        self._instance = secrets.token_bytes(16)
        self._speed: float | None = None

    async def serve(self) -> None:
        """Join and work until the coordinator says goodbye. A coordinator that is away is looked for again and again.

        Raises `TransportError` when it can't be joined, and `NodeError` when it was joined and is lost.
        """
        attempts, joined = Attempts(self._options.join_timeout), False
        while True:
            try:
                async with self._membership() as membership:
                    attempts, joined = Attempts(self._options.join_timeout), True
                    await membership.work()
                    return
            except TransportError as error:
                if isinstance(error, HandshakeError) and not isinstance(error, NoAnswer):
                    raise
                await attempts.failed(self._lost(error) if joined else error)

    def _lost(self, error: TransportError) -> NodeError:
        where = shown(self._options.host, self._options.port)
        return NodeError(f"lost the coordinator at {where}: {error}; start it again")

    @asynccontextmanager
    async def _membership(self) -> AsyncIterator[Membership]:
        """Joined, with both connections."""
        async with AsyncExitStack() as stack:
            stream = await self._dial(Purpose.CONTROL)
            control = await stack.enter_async_context(_closing(stream))
            host = str(stream.extra(SocketAttribute.local_address, ("memory",))[0])
            await control.send(await run_sync(self._hello, host))
            ack = await welcome(control)
            bulk = await stack.enter_async_context(_closing(await self._dial(Purpose.BULK, ack.bulk_ticket)))
            where = shown(self._options.host, self._options.port)
            LOG.info("joined %s as %s on %s", where, ack.node_id, self._device.id)
            yield Membership(control, bulk, partial(self._hosting, host), ack.heartbeat_s)

    def _hosting(self, host: str, assignment: wire.Assignment) -> Hosting:
        """Blocking: a device may take a while to open."""
        device = self._devices.choose(assignment.device)
        return Hosting(
            assignment,
            self._registry,
            self._store,
            self._handles,
            self._devices.open(device, assignment.threads or self._options.threads),
            self._transports,
            partial(self._terms, host, assignment),
        )

    def _terms(self, host: str, assignment: wire.Assignment, edge: str) -> EdgeTerms:
        address = self._options.edges
        return EdgeTerms(
            edge=edge,
            host=address.listen_host(host),
            port=address.port,
            advertised=address.dial_host(host) or "",
            peer_host=self._options.host,
            prove=prover(self._options.key, Purpose.EDGE),
            open_timeout=UNTIL_STOPPED,
            timeout=assignment.step_timeout_s,
        )

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

    def _hello(self, host: str) -> wire.Hello:
        offers = [(kind, offer) for kind in EXECUTED for offer in self._registry.offers(kind)]
        return wire.Hello(
            node_id=self._options.node_id,
            any_id=self._options.any_id,
            hostname=socket.gethostname(),
            truecluster=truecluster.__version__,
            python_version=platform.python_version(),
            torch_version=torch.__version__,
            platform=sys.platform,
            devices=self._devices.found,
            selected_device=self._device.id,
            dtypes=offered(self._devices.open(self._device, None)),
            speed=self._measured(),
            edge_host=self._options.edges.dial_host(host),
            compat={f"{kind}/{offer.spec.name}": offer.version for kind, offer in offers},
            max_memory_bytes=self._options.max_memory,
            pid=os.getpid(),
            instance=self._instance,
        )

    def _measured(self) -> float | None:
        """Once: a node that joins again has the same device."""
        if self._speed is None:
            self._speed = measured(self._devices.open(self._device, self._options.threads))
        return self._speed


@asynccontextmanager
async def _closing(stream: ByteStream) -> AsyncIterator[Connection]:
    """A connection that is closed when the block ends, in whatever way."""
    connection = Connection(stream)
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.aclose()
