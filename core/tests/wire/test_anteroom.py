"""Strangers on a port for nodes: bounded in number, and in nobody's way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from truecluster._wire.anteroom import Anteroom, Crowded
from truecluster._wire.handshake import Purpose, prove_async
from truecluster._wire.limits import MAX_UNPROVEN
from truecluster.api import HandshakeError

pytestmark = pytest.mark.anyio
KEY = b"k"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Port:
    """A port whose connections are let in by one anteroom; ``ended`` is how they ended."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.ended: list[object] = []
        self._anteroom = Anteroom()
        self._stack = stack
        self.number = 0

    async def accept(self, stream: SocketStream) -> None:
        async with stream:
            try:
                self.ended.append(await self._anteroom.prove(stream, KEY, (Purpose.CONTROL,)))
            except HandshakeError as error:
                self.ended.append(type(error))

    async def dial(self) -> SocketStream:
        return await self._stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", self.number))


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        port = Port(stack)
        port.number = listener.extra(SocketAttribute.local_port)
        tasks.start_soon(listener.serve, port.accept)
        yield port
        tasks.cancel_scope.cancel()


async def test_silent_strangers_make_room_and_the_one_with_the_key_gets_in(port: Port) -> None:
    strangers = [await port.dial() for _ in range(MAX_UNPROVEN + 10)]
    with anyio.fail_after(10):
        await prove_async(await port.dial(), KEY, Purpose.CONTROL, dialer=True)
        for oldest in strangers[:11]:
            with pytest.raises(anyio.EndOfStream):
                await oldest.receive()
    assert [each for each in port.ended if each is not Purpose.CONTROL] == [Crowded] * 11


async def test_a_stranger_that_sends_a_byte_now_and_then_is_no_more_welcome(port: Port) -> None:
    slow = await port.dial()
    await slow.send(b"\x89")
    for _ in range(MAX_UNPROVEN):
        await port.dial()
    with anyio.fail_after(10), pytest.raises(anyio.EndOfStream):
        await slow.receive()
