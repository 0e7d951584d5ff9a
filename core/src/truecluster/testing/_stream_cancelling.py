"""The rules of what is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from truecluster.api import StreamTransport

from ._patience import held, held_at_last
from ._stream_ends import StreamGiven, expect, noise, open_and_close
from .rules import require

STEPS = range(30)
"""Turns of the event loop after which a call is cancelled: one call in each of its awaits."""


class CancelRules(StreamGiven):
    """Whatever waits can be cancelled, and leaves nothing behind."""

    @pytest.mark.parametrize("call", ["serve", "send"])
    def test_a_wait_that_is_cancelled_ends(self, streams: StreamTransport, call: Literal["serve", "send"]) -> None:
        """A ``serve`` or ``send`` that waits ends as soon as it is cancelled."""

        async def cancelled(wait: Callable[[], Awaitable[None]]) -> None:
            with anyio.move_on_after(self.moment_s) as scope:
                while True:
                    await wait()
            require(scope.cancelled_caught, "a wait that is cancelled", "it ended by itself", call=call)

        async def main() -> None:
            if call == "serve":
                async with await streams.listen(self.host, 0) as listener:
                    await cancelled(lambda: listener.serve(ByteStream.aclose))
            else:
                async with self.pair(streams) as (here, _):
                    await cancelled(lambda: here.send(bytes(1 << 16)))

        self.within_patience(main)

    def test_a_cancelled_receive_loses_nothing(self, streams: StreamTransport) -> None:
        """A ``receive`` that is cancelled, while it waits or while bytes come, ends at once and loses none of them."""

        async def body(here: ByteStream, there: ByteStream) -> None:
            received = b""
            for steps in STEPS:
                async with anyio.create_task_group() as group:

                    async def receive() -> None:
                        nonlocal received
                        received += await there.receive(10)

                    group.start_soon(receive)
                    await turn(steps // 2)
                    await here.send(noise(10, steps))
                    await turn(steps)
                    group.cancel_scope.cancel()
            sent = b"".join(noise(10, steps) for steps in STEPS)
            require(sent.startswith(received), "the first of the bytes that were sent", received)
            await expect(there, sent[len(received) :])

        self.run(streams, body)

    @pytest.mark.parametrize("call", ["listen", "connect"])
    def test_a_cancelled_opening_leaves_nothing_open(
        self, streams: StreamTransport, call: Literal["listen", "connect"]
    ) -> None:
        """A ``listen`` or ``connect`` that is cancelled, in whichever of its awaits, leaves no descriptor or task."""
        before = held()
        left: list[int] = []

        async def main() -> None:
            async with self.accepting(streams) as (address, _):
                tasks = len(anyio.get_running_tasks())
                opens, where = (streams.connect, address) if call == "connect" else (streams.listen, (self.host, 0))
                for steps in STEPS:
                    async with anyio.create_task_group() as group:
                        group.start_soon(open_and_close, opens, *where)
                        await turn(steps)
                        group.cancel_scope.cancel()
                await anyio.sleep(self.moment_s)
                left.append(len(anyio.get_running_tasks()) - tasks)

        self.within_patience(main)
        require(left == [0], "no task is left", f"{left} are", call=call)
        after = held_at_last(before, self.patience_s)
        require(after.within(before), str(before), str(after), call=call)


async def turn(steps: int) -> None:
    """Let the event loop turn that often."""
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
