"""The nodes that have joined: one session per control connection, watched by heartbeats."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import anyio
import attrs
from anyio.abc import ByteStream, SocketAttribute, TaskGroup

import truecluster
from truecluster._registry import SILENT, Events
from truecluster._wire import messages as wire
from truecluster._wire.anteroom import Anteroom
from truecluster._wire.connection import Connection
from truecluster._wire.handshake import Purpose
from truecluster._wire.silence import HEARTBEAT, SILENCE, Silence
from truecluster.api import (
    EdgeBroken,
    EdgeEnded,
    HandshakeError,
    NodeError,
    NodeJoined,
    NodeLost,
    NodeRefused,
    TransportError,
    TrueClusterError,
)

from .memory import NodeFacts
from .refusals import Refusals

LOG = logging.getLogger(__name__)
TICKET_BYTES = 32
HELLO_TIMEOUT = 10.0
"""Seconds from the proof of the key to the HELLO, or to the ticket."""
FAREWELL_TIMEOUT = 2.0

ANSWERS = (wire.Need, wire.LoadComplete, wire.StageFault, wire.StageStopped)


class NodeSession:
    """A node from its HELLO to the end of its control connection.

    ``local_host`` is the coordinator's own address on that connection: where the node can reach its edges.
    ``patience`` says how many seconds the node may be silent now; ``spare``, whether the run at work does without it;
    ``failures``, how many runs it could not load; ``busy_s``, for how many seconds it was at its step or loading when
    it was last asked; ``done_bytes``, how much of its weights it had checked or loaded then.
    """

    def __init__(self, number: int, hello: wire.Hello, control: Connection, local_host: str) -> None:
        self.number = number
        self.id = hello.node_id
        self.local_host = local_host
        self.hello = hello
        self.control = control
        self.bulk: Connection | None = None
        self.bulk_there = anyio.Event()
        self.ticket = secrets.token_bytes(TICKET_BYTES)
        self.lost: NodeError | None = None
        self.gone = anyio.Event()
        self.spare = False
        self.failures = 0
        self.busy_s: float | None = None
        self.done_bytes = 0
        self.patience: Callable[[], float] = lambda: SILENCE
        self._silence = Silence(lambda: self.patience())
        self._word = anyio.Event()
        self.on_message: Callable[[wire.Message], None] = lambda message: None
        self.on_lost: Callable[[NodeError], None] = lambda error: None

    @property
    def device(self) -> str:
        return self.hello.selected_device

    def facts(self) -> NodeFacts:
        """What is known of its memory."""
        info = next((d for d in self.hello.devices if d.id == self.device), None)
        return NodeFacts(
            id=self.id,
            device=self.device,
            place=(self.hello.hostname, self.device),
            free=info.free if info else None,
            bound=self.hello.max_memory_bytes,
        )

    async def farewell(self) -> None:
        """Let the node leave; one that can't hear it any more leaves by itself."""
        with suppress(TransportError):
            await self.control.send(wire.StopRun(run=0, reason=wire.StopReason.SHUTDOWN))

    def lose(self, why: str) -> None:
        """Mark the node as gone; whoever waits for a word of it learns."""
        if self.lost is None:
            self.lost = NodeError(f"node {self.id} was lost: {why}")
            self.gone.set()
            self._spoke()
            self.on_lost(self.lost)

    async def next_word(self) -> None:
        """Wait until the node says something, or is lost."""
        if self.lost is None:
            await self._word.wait()

    def _spoke(self) -> None:
        self._silence.heard()
        self._word.set()
        self._word = anyio.Event()

    async def listen(self) -> None:
        """Take the node's words until it is lost."""
        try:
            while self.lost is None:
                message = await self.control.receive()
                self._spoke()
                if isinstance(message, wire.Error):
                    self.lose(message.message)
                elif isinstance(message, ANSWERS):
                    self.on_message(message)
                elif isinstance(message, wire.Pong):
                    self.busy_s, self.done_bytes = message.busy_since_s, message.done_bytes
                else:
                    raise EdgeBroken(f"a node sent {type(message).__name__}, which only coordinators send")
        except EdgeEnded:
            self.lose("it closed its connection")
        except TransportError as error:
            self.lose(str(error))

    async def ping(self) -> None:
        """Ask for a sign of life, and say what there is to know, every `HEARTBEAT` seconds."""
        try:
            for number in count(1):
                await self.control.send(wire.Ping(number=number, spare=self.spare))
                await anyio.sleep(HEARTBEAT)
        except TransportError as error:
            self.lose(str(error))

    async def watch(self) -> None:
        """Lose the node when it has been silent for longer than it may be."""
        self.lose(f"no word for {await self._silence.too_long():.0f} s")


@attrs.define(eq=False)
class Nodes:
    """Accepts connections of nodes, and knows who is there. Nodes that come before `open` are kept waiting."""

    key: bytes = attrs.field(repr=False)
    events: Events = SILENT
    joined: dict[str, NodeSession] = attrs.field(factory=dict)
    changed: anyio.Event = attrs.field(factory=anyio.Event)
    _check: Callable[[wire.Hello], None] = lambda hello: None
    _opened: anyio.Event = attrs.field(factory=anyio.Event)
    _anteroom: Anteroom = attrs.field(factory=Anteroom)
    _refusals: Refusals = attrs.field(factory=Refusals)
    _leaving: bool = False
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
            self.events.emit(NodeRefused(node=None, reason=str(error)))
        except (TransportError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            LOG.debug("a connection ended: %s", error or type(error).__name__)
        finally:
            await anyio.aclose_forcefully(stream)

    async def farewell(self) -> None:
        """Tell every node that the session is over."""
        self._leaving = True
        with anyio.move_on_after(FAREWELL_TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for session in self.joined.values():
                    tasks.start_soon(session.farewell)

    async def _control(self, stream: ByteStream) -> None:
        control = Connection(stream)
        with anyio.fail_after(HELLO_TIMEOUT):
            hello = await control.receive()
        if not isinstance(hello, wire.Hello):
            raise EdgeBroken(f"a node began with {type(hello).__name__} instead of HELLO")
        self._sessions += 1
        local_host = str(stream.extra(SocketAttribute.local_address, ("memory",))[0])
        session = NodeSession(self._sessions, hello, control, local_host)
        try:
            async with anyio.create_task_group() as tasks:
                for keep in (session.listen, session.ping, session.watch):
                    tasks.start_soon(keep)
                if await self._join(session):
                    await session.gone.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._part(session, "it closed its connection")

    async def _join(self, session: NodeSession) -> bool:
        """Says whether the node is in; one that isn't has been told why."""
        try:
            await _unless(session.gone, self._opened)
            self._check(session.hello)
            await self._only_one(session)
        except TrueClusterError as error:
            LOG.warning("refused node %s: %s", session.id, error)
            self.events.emit(NodeRefused(node=session.id, reason=str(error)))
            await session.control.send(wire.Error(message=str(error)))
            return False
        if session.lost is not None:
            return False
        self.joined[session.id] = session
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

    async def _only_one(self, session: NodeSession) -> None:
        """Find a name that no other node has, or take the place of a dead connection.

        Raises `NodeError` where the node of that name is alive, and the newcomer wants no other.
        """
        wish, number = session.id, 1
        for other in [s for s in self.joined.values() if s.hello.instance == session.hello.instance]:
            session.id = other.id
            self._part(other, "it has connected again")
        while session.lost is None and (there := self.joined.get(session.id)) is not None:
            await there.next_word()
            if there.lost is not None:
                self._part(there, "it has connected again")
            elif session.hello.any_id:
                number += 1
                session.id = f"{wish}-{number}"
            else:
                where = f"{there.hello.hostname} (process {there.hello.pid})"
                raise NodeError(f"a node named {wish} is here already, on {where}; give another --node-id")

    def _part(self, session: NodeSession, why: str) -> None:
        """The end of a session; a later one of the same name is not touched."""
        session.lose(why)
        if self.joined.get(session.id) is session:
            del self.joined[session.id]
            if session.bulk is not None and not self._leaving:
                self.events.emit(NodeLost(node=session.id, reason=str(session.lost)))
        self.notify()

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
                self.notify()
                LOG.info("node %s joined: %s on %s", session.id, session.device, session.hello.hostname)
                self.events.emit(_joined(session))
                await session.gone.wait()
                return
        raise EdgeBroken("a bulk connection came with a ticket that no node has")

    def ready(self) -> list[NodeSession]:
        """Nodes with both connections, in the order in which they joined."""
        return [s for s in self.joined.values() if s.bulk is not None and s.lost is None]

    def notify(self) -> None:
        """Wake who waits for ``changed``. From the event loop."""
        self.changed.set()
        self.changed = anyio.Event()


def _joined(session: NodeSession) -> NodeJoined:
    facts = session.facts()
    limits = [limit for limit in (facts.free, facts.bound) if limit is not None]
    return NodeJoined(node=session.id, device=session.device, memory=min(limits, default=None))


def by_name(session: NodeSession) -> tuple[int, str]:
    """The same nodes get the same spans at every start, so that what they store serves again."""
    return len(session.id), session.id


async def _unless(ended: anyio.Event, event: anyio.Event) -> None:
    """Wait for the one or the other."""
    async with anyio.create_task_group() as tasks:
        for each in (ended, event):
            tasks.start_soon(_first, each, tasks)


async def _first(event: anyio.Event, tasks: TaskGroup) -> None:
    await event.wait()
    tasks.cancel_scope.cancel()
