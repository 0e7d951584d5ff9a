"""Who is let in, who is lost, and who takes whose place: over real sockets, with nodes that the test plays."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import attrs
import pytest
from anyio.abc import SocketAttribute
from hellos import HELLO

from truecluster._cluster import session
from truecluster._cluster.admission import Admission
from truecluster._cluster.nodes import Nodes
from truecluster._wire import messages as wire
from truecluster._wire import silence
from truecluster._wire.connection import Connection
from truecluster._wire.handshake import Purpose, prove_async
from truecluster.api import NodeError, TransportError

pytestmark = pytest.mark.anyio
KEY = b"key"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "LOOK", 0.02)
    monkeypatch.setattr(session, "HEARTBEAT", 0.05)
    monkeypatch.setattr(session, "SILENCE", 0.4)


@attrs.define(eq=False)
class Played:
    """A node, as far as control goes; ``answers`` whether it says anything to a PING."""

    control: Connection
    answers: bool = True
    told: list[wire.Message] = attrs.field(factory=list)
    ended: bool = False

    async def live(self) -> None:
        """Answer pings until the coordinator hangs up."""
        try:
            while True:
                message = await self.control.receive()
                self.told.append(message)
                if isinstance(message, wire.Ping) and self.answers:
                    await self.control.send(wire.Pong(number=message.number, finished_step=0))
        except TransportError:
            self.ended = True
        finally:
            with anyio.CancelScope(shield=True):
                await self.control.aclose()

    def heard(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.told if isinstance(message, kind)]


@attrs.define(eq=False)
class Scene:
    admission: Admission
    port: int
    tasks: Any

    @property
    def nodes(self) -> Nodes:
        return self.admission.nodes

    async def dial(self, hello: wire.Hello = HELLO, answers: bool = True) -> Played:
        """A node that has said HELLO."""
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        await prove_async(stream, KEY, Purpose.CONTROL, dialer=True)
        node = Played(Connection(stream), answers)
        await node.control.send(hello)
        self.tasks.start_soon(node.live)
        return node

    async def joined(self, hello: wire.Hello = HELLO, answers: bool = True) -> Played:
        node = await self.dial(hello, answers)
        await until(lambda: bool(node.heard(wire.HelloAck)))
        return node


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not true():
            await anyio.sleep(0.01)


@asynccontextmanager
async def scene(opened: bool = True) -> AsyncIterator[Scene]:
    admission = Admission(KEY)
    if opened:
        admission.open(lambda hello: None)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, admission.accept)
        yield Scene(admission, listener.extra(SocketAttribute.local_port), tasks)
        tasks.cancel_scope.cancel()


def other(**changes: Any) -> wire.Hello:
    """Another process that wants the same name."""
    return attrs.evolve(HELLO, **{"instance": b"another process!", "hostname": "there", **changes})


async def test_a_node_that_comes_before_the_model_is_open_waits_and_is_pinged() -> None:
    """DIST-12: the port is bound first, and opening a model may take minutes."""
    async with scene(opened=False) as at:
        early = await at.dial()
        await until(lambda: len(early.heard(wire.Ping)) > 10)
        assert not early.heard(wire.HelloAck)
        at.admission.open(lambda hello: None)
        await until(lambda: bool(early.heard(wire.HelloAck)))
        assert list(at.nodes.joined) == ["w1"]


async def test_who_is_refused_is_told_why() -> None:
    def refuse(hello: wire.Hello) -> None:
        raise NodeError("install the same versions")

    async with scene(opened=False) as at:
        at.admission.open(refuse)
        node = await at.dial()
        await until(lambda: node.ended)
        assert node.heard(wire.Error) == [wire.Error(message="install the same versions")]
        assert not at.nodes.joined


async def test_a_silent_node_is_lost_in_time() -> None:
    """DIST-03: a proxy swallows everything after the HELLO, or the machine lost its power."""
    async with scene() as at:
        began = time.monotonic()
        node = await at.joined(answers=False)
        session = at.nodes.joined["w1"]
        await until(lambda: node.ended)
        assert str(session.lost) == "node w1 was lost: no word for 0 s"
        assert time.monotonic() - began > 0.4
        assert not at.nodes.joined


async def test_a_busy_node_may_be_silent_for_longer() -> None:
    """DIST-04: it holds its interpreter; that its patience is over is judged anew when it has nothing to do."""
    async with scene() as at:
        node = await at.joined(answers=False)
        session = at.nodes.joined["w1"]
        session.patience = lambda: 60.0
        await anyio.sleep(1.0)
        assert session.lost is None
        node.answers = True
        session.patience = lambda: 0.4
        await anyio.sleep(1.0)
        assert session.lost is None


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_the_wall_clock_does_not_matter(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    """DIST-15."""
    now = time.time
    async with scene() as at:
        await at.joined()
        monkeypatch.setattr(time, "time", lambda: now() + jump)
        await anyio.sleep(0.6)
        assert at.nodes.joined["w1"].lost is None


async def test_the_same_process_takes_the_place_of_its_dead_connection() -> None:
    """DIST-01 (a), (c): the end of the old session doesn't touch the new one."""
    async with scene() as at:
        old = await at.joined(answers=False)
        first = at.nodes.joined["w1"]
        new = await at.joined()
        await until(lambda: old.ended)
        await anyio.sleep(0.6)
        assert not new.ended
        second = at.nodes.joined["w1"]
        assert first.lost is not None
        assert second.lost is None
        assert second.number > first.number


async def test_another_process_takes_the_name_of_a_silent_one_only_when_that_is_lost() -> None:
    """DIST-01 (a): the node was started again before its old connection was found dead."""
    async with scene() as at:
        old = await at.joined(answers=False)
        first = at.nodes.joined["w1"]
        new = await at.dial(other())
        await until(lambda: bool(new.heard(wire.HelloAck)))
        assert first.lost is not None
        await until(lambda: old.ended)  # who hears of it a few turns of the loop later
        assert at.nodes.joined["w1"].hello.hostname == "there"


async def test_a_living_node_keeps_its_name() -> None:
    """DIST-01 (b): never two live owners."""
    async with scene() as at:
        old = await at.joined()
        new = await at.dial(other())
        await until(lambda: new.ended)
        (refusal,) = new.heard(wire.Error)
        assert refusal.message == ("a node named w1 is here already, on here (process 7); give another --node-id")
        assert not old.ended


async def test_nodes_that_were_given_no_name_get_one() -> None:
    """truecluster.md, 15.2: two nodes of one machine, started by the same words."""
    async with scene() as at:
        names = []
        for number in range(3):
            node = await at.joined(other(any_id=True, instance=bytes([number] * 16)))
            names.append(node.heard(wire.HelloAck)[0].node_id)
        assert names == ["w1", "w1-2", "w1-3"]
        again = await at.joined(other(any_id=True, instance=bytes([1] * 16)))
        assert again.heard(wire.HelloAck)[0].node_id == "w1-2"


async def test_who_leaves_while_it_waits_is_forgotten() -> None:
    async with scene(opened=False) as at:
        node = await at.dial()
        await until(lambda: bool(node.heard(wire.Ping)))
        with suppress(TransportError):
            await node.control.aclose()
        await anyio.sleep(0.1)
        at.admission.open(lambda hello: None)
        await anyio.sleep(0.1)
        assert not at.nodes.joined
