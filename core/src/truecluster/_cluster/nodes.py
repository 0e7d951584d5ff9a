"""The nodes that have joined: one session per control connection, watched by heartbeats."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

import anyio
import attrs
from anyio.abc import ByteStream, SocketAttribute, TaskGroup

import truecluster
from truecluster._wire import messages as wire
from truecluster._wire.connection import Connection
from truecluster._wire.handshake import Purpose, accept_async
from truecluster.api import EdgeBroken, EdgeEnded, HandshakeError, NodeError, NodeProfile, TransportError

LOG = logging.getLogger(__name__)
HEARTBEAT = 2.0
"""Seconds between two PINGs; a node that is silent for `SILENCE` of them is lost."""
SILENCE = 5
TICKET_BYTES = 32

HELLO_TIMEOUT = 10.0
"""Seconds from the proof of the key to the HELLO, or to the ticket."""
FAREWELL_TIMEOUT = 2.0

ANSWERS = (wire.Need, wire.LoadComplete, wire.StageFault, wire.StageStopped)


class NodeSession:
    """A node from its HELLO to the end of its control connection.

    ``local_host`` is the coordinator's own address on that connection: where the node can reach its edges.
    """

    def __init__(self, number: int, hello: wire.Hello, control: Connection, local_host: str) -> None:
        self.number = number
        self.local_host = local_host
        self.hello = hello
        self.control = control
        self.bulk: Connection | None = None
        self.bulk_there = anyio.Event()
        self.ticket = secrets.token_bytes(TICKET_BYTES)
        self.lost: NodeError | None = None
        self.done_bytes = 0
        self.gone = anyio.Event()
        self.last_word = time.monotonic()
        self.on_message: Callable[[wire.Message], None] = lambda message: None
        self.on_lost: Callable[[NodeError], None] = lambda error: None

    @property
    def id(self) -> str:
        return self.hello.node_id

    @property
    def device(self) -> str:
        return self.hello.selected_device

    def profile(self) -> NodeProfile:
        """What a planner is told of the node."""
        info = next((d for d in self.hello.devices if d.id == self.device), None)
        limits = [m for m in (self.hello.max_memory_bytes, info.free if info else None) if m is not None]
        return NodeProfile(id=self.id, device=self.device, memory=min(limits, default=None))

    async def farewell(self) -> None:
        """Let the node leave; one that can't hear it any more leaves by itself."""
        with suppress(TransportError):
            await self.control.send(wire.StopRun(run=0, reason=wire.StopReason.SHUTDOWN))

    def lose(self, why: str) -> None:
        """Mark the node as gone; whoever waits for a word of it learns."""
        if self.lost is None:
            self.lost = NodeError(f"node {self.id} was lost: {why}")
            self.gone.set()
            self.on_lost(self.lost)


@attrs.define(eq=False)
class Nodes:
    """Accepts connections of nodes, and knows who is there. ``check`` raises to refuse a HELLO."""

    key: bytes = attrs.field(repr=False)
    check: Callable[[wire.Hello], None]
    joined: dict[str, NodeSession] = attrs.field(factory=dict)
    changed: anyio.Event = attrs.field(factory=anyio.Event)
    _sessions: int = 0

    async def accept(self, stream: ByteStream) -> None:
        """Serve one connection until it ends. What goes wrong on it touches no other."""
        try:
            purpose = await accept_async(stream, self.key, (Purpose.CONTROL, Purpose.BULK))
            if purpose is Purpose.CONTROL:
                await self._control(stream)
            else:
                await self._bulk(stream)
        except HandshakeError as error:
            LOG.warning("refused a connection: %s", error)
        except (TransportError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            LOG.debug("a connection ended: %s", error or type(error).__name__)
        finally:
            await anyio.aclose_forcefully(stream)

    async def farewell(self) -> None:
        """Tell every node that the session is over."""
        with anyio.move_on_after(FAREWELL_TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for session in self.joined.values():
                    tasks.start_soon(session.farewell)

    async def _control(self, stream: ByteStream) -> None:
        control = Connection(stream)
        session = await self._join(control, str(stream.extra(SocketAttribute.local_address, ("memory",))[0]))
        if session is None:
            return
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._ping, session, tasks)
                await self._listen(session)
                tasks.cancel_scope.cancel()
        finally:
            session.lose("it closed its connection")
            if self.joined.get(session.id) is session:
                del self.joined[session.id]
            self._notify()

    async def _join(self, control: Connection, local_host: str) -> NodeSession | None:
        with anyio.fail_after(HELLO_TIMEOUT):
            hello = await control.receive()
        if not isinstance(hello, wire.Hello):
            raise EdgeBroken(f"a node began with {type(hello).__name__} instead of HELLO")
        try:
            self.check(hello)
            if hello.node_id in self.joined:
                raise NodeError(f"a node named {hello.node_id} is here already; give another --node-id")
        except Exception as error:
            LOG.warning("refused node %s: %s", hello.node_id, error)
            await control.send(wire.Error(message=str(error)))
            return None
        self._sessions += 1
        session = NodeSession(self._sessions, hello, control, local_host)
        self.joined[session.id] = session
        await control.send(
            wire.HelloAck(
                session=session.number,
                coordinator_version=truecluster.__version__,
                heartbeat_s=HEARTBEAT,
                bulk_ticket=session.ticket,
            )
        )
        return session

    async def _listen(self, session: NodeSession) -> None:
        try:
            while True:
                message = await session.control.receive()
                session.last_word = time.monotonic()
                if isinstance(message, wire.Error):
                    session.lose(message.message)
                    return
                if isinstance(message, ANSWERS):
                    session.on_message(message)
                elif isinstance(message, wire.Pong):
                    session.done_bytes = message.done_bytes
                else:
                    raise EdgeBroken(f"a node sent {type(message).__name__}, which only coordinators send")
        except EdgeEnded:
            session.lose("it closed its connection")
        except TransportError as error:
            session.lose(str(error))

    async def _ping(self, session: NodeSession, tasks: TaskGroup) -> None:
        number = 0
        while time.monotonic() - session.last_word < HEARTBEAT * SILENCE:
            number += 1
            try:
                await session.control.send(wire.Ping(number=number))
            except TransportError as error:
                session.lose(str(error))
                break
            await anyio.sleep(HEARTBEAT)
        session.lose(f"no word for {HEARTBEAT * SILENCE:g} s")
        tasks.cancel_scope.cancel()

    async def _bulk(self, stream: ByteStream) -> None:
        """Match a bulk connection to its node by ticket, and keep it open as long as the node is there."""
        ticket = b""
        with anyio.fail_after(HELLO_TIMEOUT):
            while len(ticket) < TICKET_BYTES:
                ticket += await stream.receive(TICKET_BYTES - len(ticket))
        for session in self.joined.values():
            if session.bulk is None and secrets.compare_digest(session.ticket, ticket):
                session.bulk = Connection(stream)
                session.bulk_there.set()
                self._notify()
                LOG.info("node %s joined: %s on %s", session.id, session.device, session.hello.hostname)
                await session.gone.wait()
                return
        raise EdgeBroken("a bulk connection came with a ticket that no node has")

    def ready(self) -> list[NodeSession]:
        """Nodes with both connections, in the order in which they joined."""
        return [s for s in self.joined.values() if s.bulk is not None and s.lost is None]

    def _notify(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()
