"""One node that is connected: what it said of itself, what it says, and whether it is still there."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import anyio

from truecluster._wire import messages as wire
from truecluster._wire.connection import Connection
from truecluster._wire.silence import HEARTBEAT, SILENCE, Silence
from truecluster.api import EdgeBroken, EdgeEnded, NodeError, TransportError

from .memory import NodeFacts

TICKET_BYTES = 32
ANSWERS = (wire.Need, wire.LoadComplete, wire.StageFault, wire.StageStopped)


class NodeSession:
    """A node from its HELLO to the end of its control connection.

    ``local_host`` is the coordinator's own address on that connection: where the node can reach its edges.
    ``patience`` says how many seconds the node may be silent now; ``spare``, whether the run at work does without it;
    ``failures``, how many runs it could not load; ``pong`` is what it answered when it was last asked how far it is.
    """

    def __init__(self, number: int, hello: wire.Hello, control: Connection, local_host: str) -> None:
        self.number = number
        self.id = hello.node_id
        self.local_host = local_host
        self.hello = hello
        self.control = control
        self.bulk: Connection | None = None
        self.ticket = secrets.token_bytes(TICKET_BYTES)
        self.lost: NodeError | None = None
        self.gone = anyio.Event()
        self.spare = False
        self.failures = 0
        self.pong = wire.Pong(number=0, finished_step=0)
        self.patience: Callable[[], float] = lambda: SILENCE
        self._silence = Silence(lambda: self.patience())
        self._word = anyio.Event()
        self.on_message: Callable[[wire.Message], None] = lambda message: None
        self.on_lost: Callable[[NodeError], None] = lambda error: None

    @property
    def device(self) -> str:
        return self.hello.selected_device

    def facts(self) -> NodeFacts:
        """What is known of its memory and its speed."""
        info = next((d for d in self.hello.devices if d.id == self.device), None)
        return NodeFacts(
            id=self.id,
            device=self.device,
            place=(self.hello.hostname, self.device),
            free=info.free if info else None,
            bound=self.hello.max_memory_bytes,
            speed=self.hello.speed,
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
                    self.pong = message
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


def by_name(session: NodeSession) -> tuple[int, str]:
    """The same nodes get the same spans at every start, so that what they store serves again."""
    return len(session.id), session.id
