"""What a coordinator hears of one stage on a node."""

from __future__ import annotations

from typing import Any

import anyio
import attrs
import pytest
from hellos import HELLO

from truecluster._cluster.remote import RemoteStage
from truecluster._cluster.session import NodeSession
from truecluster._plan import StagePlan
from truecluster._wire import messages as wire
from truecluster.api import DType, Dtypes, EdgeBroken, NodeError, Span

pytestmark = pytest.mark.anyio
RUN = 7
FP32 = Dtypes(DType.FP32, DType.FP32)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def session() -> NodeSession:
    return NodeSession(1, attrs.evolve(HELLO, node_id="n"), control=None, local_host="127.0.0.1")  # type: ignore[arg-type]


@pytest.fixture
def stage(session: NodeSession) -> RemoteStage:
    plan = StagePlan(index=1, count=3, node="n", span=Span(0, 2), inbound="7.1", outbound="7.2", dtypes=FP32)
    return RemoteStage(session, RUN, plan)


def need(run: int = RUN) -> wire.Need:
    return wire.Need(run=run, hashes=(), inbound_ticket=b"t")


def fault(reason: wire.FaultReason = wire.FaultReason.LOAD_FAILED) -> wire.StageFault:
    return wire.StageFault(run=RUN, reason=reason, message="no room")


async def test_a_word_is_awaited(session: NodeSession, stage: RemoteStage) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_later, session, need())
        assert await stage.expect(wire.Need, 5) == need()


async def _later(session: NodeSession, message: Any) -> None:
    await anyio.sleep(0.01)
    session.on_message(message)


async def test_a_word_of_an_earlier_run_is_not_heard(session: NodeSession, stage: RemoteStage) -> None:
    session.on_message(need(run=RUN - 1))
    with pytest.raises(NodeError, match=r"node n didn't answer with Need within 0\.05 s"):
        await stage.expect(wire.Need, 0.05)


async def test_a_fault_is_raised_and_reported_once_watched(session: NodeSession, stage: RemoteStage) -> None:
    heard: list[Exception] = []
    session.on_message(fault())
    with pytest.raises(NodeError, match="node n: no room"):
        await stage.expect(wire.LoadComplete, 5)
    assert not heard
    stage.watch(heard.append)
    assert [str(error) for error in heard] == ["node n: no room"]


async def test_a_lost_edge_is_told_apart_since_it_is_seldom_the_cause(session: NodeSession, stage: RemoteStage) -> None:
    session.on_message(fault(wire.FaultReason.EDGE_LOST))
    with pytest.raises(EdgeBroken):
        await stage.expect(wire.LoadComplete, 5)


async def test_the_end_of_a_faulted_stage_is_still_awaited(session: NodeSession, stage: RemoteStage) -> None:
    session.on_message(fault())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_later, session, wire.StageStopped(run=RUN))
        assert await stage.expect(wire.StageStopped, 5) == wire.StageStopped(run=RUN)


async def test_nothing_is_awaited_of_a_lost_node(session: NodeSession, stage: RemoteStage) -> None:
    heard: list[Exception] = []
    stage.watch(heard.append)
    session.lose("it closed its connection")
    session.lose("and again")
    assert [str(error) for error in heard] == ["node n was lost: it closed its connection"]
    with pytest.raises(NodeError, match="was lost"):
        await stage.expect(wire.StageStopped, 5)


async def test_a_node_that_is_lost_already_gives_no_stage(session: NodeSession) -> None:
    session.lose("it closed its connection")
    stage = RemoteStage(
        session, RUN, StagePlan(index=0, count=1, node="n", span=Span(0, 2), inbound="a", outbound="b", dtypes=FP32)
    )
    with pytest.raises(NodeError, match="was lost"):
        await stage.expect(wire.Need, 5)
