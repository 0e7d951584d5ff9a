"""Frames over a real socket: order, raw sections, endings told apart, hostile lengths (cases DIST-05)."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import msgpack
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketStream

from truecluster._wire.codec import encode
from truecluster._wire.connection import Connection
from truecluster._wire.messages import Error, Ping, WeightChunk
from truecluster.api import EdgeBroken, EdgeClosed, EdgeEnded, EdgeTimeout

CHUNK = WeightChunk(run=1, hash="ab" * 32, offset=0, total=8)


@asynccontextmanager
async def _pair() -> AsyncIterator[tuple[SocketStream, SocketStream]]:
    accepted: list[SocketStream] = []
    arrived, done = anyio.Event(), anyio.Event()

    async def accept(stream: SocketStream) -> None:
        accepted.append(stream)
        arrived.set()
        await done.wait()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, accept)
        here = await anyio.connect_tcp("127.0.0.1", listener.extra(SocketAttribute.local_port))
        await arrived.wait()
        async with here, accepted[0] as there:
            yield here, there
        group.cancel_scope.cancel()


def _run(body: Callable[[SocketStream, SocketStream], Awaitable[None]]) -> None:
    async def main() -> None:
        async with _pair() as (here, there):
            with anyio.fail_after(20):
                await body(here, there)

    anyio.run(main)


def test_messages_of_several_tasks_arrive_whole_and_numbered() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        sender, receiver = Connection(here), Connection(there)
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(sender.send, Ping(number=number))
            received = [await receiver.receive() for _ in range(50)]
        assert sorted(message.number for message in received) == list(range(50))

    _run(body)


def test_a_section_lands_in_the_memory_it_was_given() -> None:
    memory = bytearray(8 << 20)
    data = bytes(range(256)) * (len(memory) // 256)

    async def body(here: SocketStream, there: SocketStream) -> None:
        sender, receiver = Connection(here), Connection(there)
        async with anyio.create_task_group() as group:
            group.start_soon(sender.send, CHUNK, [data])
            assert await receiver.receive(lambda message, sizes: [memoryview(memory)]) == CHUNK
            group.start_soon(sender.send, Ping(number=1))
            assert await receiver.receive() == Ping(number=1)
        assert memory == data

    _run(body)


@pytest.mark.parametrize("room", [[], [7], [9], [8, 0]], ids=str)
def test_memory_of_another_size_breaks_it(room: list[int]) -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        await Connection(here).send(CHUNK, [bytes(8)])
        with pytest.raises(EdgeBroken, match="size that is due"):
            await Connection(there).receive(lambda message, sizes: [memoryview(bytearray(n)) for n in room])

    _run(body)


def test_raw_bytes_where_none_are_taken_break_it() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        await Connection(here).send(CHUNK, [bytes(8)])
        with pytest.raises(EdgeBroken, match="carries none"):
            await Connection(there).receive()

    _run(body)


@pytest.mark.parametrize("length", [0, (1 << 20) + 1, 2**32 - 1, 2**63, 2**64 - 1])
def test_a_hostile_length_is_refused_before_anything_is_allocated(length: int) -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        await here.send(struct.pack(">Q", length))
        with pytest.raises(EdgeBroken, match=f"claims {length} bytes"):
            await Connection(there).receive()

    _run(body)


def test_the_one_who_broke_the_rules_can_still_be_told() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        await here.send(struct.pack(">Q", 1) + b"\xc1")
        receiver = Connection(there)
        with pytest.raises(EdgeBroken):
            await receiver.receive()
        await receiver.send(Error(message="that was no message"))
        assert await Connection(here).receive() == Error(message="that was no message")
        with pytest.raises(EdgeClosed, match="cut short"):
            await receiver.receive()

    _run(body)


def test_a_number_that_was_not_due_breaks_it() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        envelope = encode(Ping(number=1), 2)
        await here.send(struct.pack(">Q", len(envelope)) + envelope)
        with pytest.raises(EdgeBroken, match="message 2 where number 1"):
            await Connection(there).receive()

    _run(body)


@pytest.mark.parametrize(
    ("sent", "error"), [(b"", EdgeEnded), (b"\0\0\0", EdgeBroken), (b"\0" * 7 + b"\x09\x81", EdgeBroken)]
)
def test_the_end_between_messages_and_inside_one_are_told_apart(sent: bytes, error: type[Exception]) -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        if sent:
            await here.send(sent)
        await here.aclose()
        with pytest.raises(error):
            await Connection(there).receive()

    _run(body)


def test_a_message_that_begun_has_a_deadline_and_the_wait_for_one_has_none() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        receiver = Connection(there, timeout=0.05)
        with anyio.move_on_after(0.2) as scope:
            await receiver.receive()
        assert scope.cancelled_caught
        await here.send(b"\0")
        with pytest.raises(EdgeTimeout):
            await receiver.receive()

    _run(body)


def test_a_cancelled_wait_loses_nothing() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        sender, receiver = Connection(here), Connection(there)
        for number in range(3):
            with anyio.move_on_after(0.01):
                await receiver.receive()
            await sender.send(Ping(number=number))
            assert await receiver.receive() == Ping(number=number)

    _run(body)


class _Stalled(ByteStream):
    """The peer has stopped reading."""

    async def send(self, item: bytes) -> None:
        await anyio.sleep_forever()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.sleep_forever()
        return b""

    async def send_eof(self) -> None: ...

    async def aclose(self) -> None: ...


def test_a_receiver_that_does_not_read_stops_the_sender_in_time() -> None:
    async def main() -> None:
        sender = Connection(_Stalled(), timeout=0.05)
        with pytest.raises(EdgeTimeout):
            await sender.send(CHUNK, [bytes(8)])
        with pytest.raises(EdgeClosed, match="cut short"):
            await sender.send(Ping(number=1))

    anyio.run(main)


def test_closed_by_this_side_is_told_apart() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        connection = Connection(there)
        await connection.aclose()
        await connection.aclose()
        with pytest.raises(EdgeClosed):
            await connection.receive()
        with pytest.raises(EdgeClosed):
            await connection.send(Ping(number=1))

    _run(body)


def test_a_duplicate_of_a_key_is_seen_through_the_frame() -> None:
    async def body(here: SocketStream, there: SocketStream) -> None:
        double = b"\x82" + (msgpack.packb("seq") + msgpack.packb(1)) * 2
        await here.send(struct.pack(">Q", len(double)) + double)
        with pytest.raises(EdgeBroken, match="twice"):
            await Connection(there).receive()

    _run(body)
