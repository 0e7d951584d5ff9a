"""Letting nodes in: a proof of the key, then HELLO on a control connection, then a bulk connection with its ticket."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import anyio
import attrs
from anyio.abc import ByteStream, SocketAttribute

import truecluster
from truecluster._wire import messages as wire
from truecluster._wire.anteroom import Anteroom
from truecluster._wire.connection import Connection
from truecluster._wire.handshake import Purpose
from truecluster._wire.silence import HEARTBEAT
from truecluster.api import EdgeBroken, HandshakeError, NodeRefused, TransportError, TrueClusterError

from .nodes import Nodes
from .refusals import Refusals
from .session import TICKET_BYTES, NodeSession
from .waiting import any_of

LOG = logging.getLogger(__name__)
HELLO_TIMEOUT = 10.0
"""Seconds from the proof of the key to the HELLO, or to the ticket."""


@attrs.define(eq=False)
class Admission:
    """Serves the connections of ``nodes``. Those that come before `open` are kept waiting."""

    key: bytes = attrs.field(repr=False)
    nodes: Nodes = attrs.field(factory=Nodes)
    _check: Callable[[wire.Hello], None] = lambda hello: None
    _opened: anyio.Event = attrs.field(factory=anyio.Event)
    _anteroom: Anteroom = attrs.field(factory=Anteroom)
    _refusals: Refusals = attrs.field(factory=Refusals)
    _sessions: int = 0

    def open(self, check: Callable[[wire.Hello], None]) -> None:
        """Let nodes in; ``check`` raises to refuse a HELLO. From the event loop."""
        self._check = check
        self._opened.set()

    async def accept(self, stream: ByteStream) -> None:
        """Serve one connection until it ends. What goes wrong on it touches no other."""
        try:
            purpose = await self._anteroom.prove(stream, self.key, (Purpose.CONTROL, Purpose.BULK))
            if purpose is Purpose.CONTROL:
                await self._control(stream)
            else:
                await self._bulk(stream)
        except HandshakeError as error:
            self._refusals.say(error)
            self.nodes.events.emit(NodeRefused(node=None, reason=str(error)))
        except (TransportError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            LOG.debug("a connection ended: %s", error or type(error).__name__)
        finally:
            await anyio.aclose_forcefully(stream)

    async def _control(self, stream: ByteStream) -> None:
        session = await self._session(stream)
        try:
            async with anyio.create_task_group() as tasks:
                for keep in (session.listen, session.ping, session.watch):
                    tasks.start_soon(keep)
                if await self._join(session):
                    await session.gone.wait()
                tasks.cancel_scope.cancel()
        finally:
            self.nodes.leave(session, "it closed its connection")

    async def _session(self, stream: ByteStream) -> NodeSession:
        control = Connection(stream)
        with anyio.fail_after(HELLO_TIMEOUT):
            hello = await control.receive()
        if not isinstance(hello, wire.Hello):
            raise EdgeBroken(f"a node began with {type(hello).__name__} instead of HELLO")
        self._sessions += 1
        local_host = str(stream.extra(SocketAttribute.local_address, ("memory",))[0])
        return NodeSession(self._sessions, hello, control, local_host)

    async def _join(self, session: NodeSession) -> bool:
        """Says whether the node is in; one that isn't has been told why."""
        try:
            await any_of(session.gone, self._opened)
            self._check(session.hello)
            await self.nodes.enter(session)
        except TrueClusterError as error:
            LOG.warning("refused node %s: %s", session.id, error)
            self.nodes.faults.note(f"refused node {session.id}: {error}")
            self.nodes.events.emit(NodeRefused(node=session.id, reason=str(error)))
            await session.control.send(wire.Error(message=str(error)))
            return False
        if session.lost is not None:
            return False
        await session.control.send(
            wire.HelloAck(
                node_id=session.id,
                session=session.number,
                coordinator_version=truecluster.__version__,
                heartbeat_s=HEARTBEAT,
                bulk_ticket=session.ticket,
            )
        )
        return True

    async def _bulk(self, stream: ByteStream) -> None:
        """Match a bulk connection to its node by ticket, and keep it open as long as the node is there."""
        ticket = b""
        with anyio.fail_after(HELLO_TIMEOUT):
            while len(ticket) < TICKET_BYTES:
                ticket += await stream.receive(TICKET_BYTES - len(ticket))
        for session in self.nodes.joined.values():
            if session.bulk is None and secrets.compare_digest(session.ticket, ticket):
                self.nodes.complete(session, Connection(stream))
                await session.gone.wait()
                return
        raise EdgeBroken("a bulk connection came with a ticket that no node has")
