"""The event loop of a command."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")
ENDINGS = (signal.SIGINT, signal.SIGTERM)


def run(main: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
    """As `anyio.run`, but the first Ctrl-C or SIGTERM, and only that, cancels ``main``.

    At its end it then raises `KeyboardInterrupt`, or `SystemExit` with what shells say of SIGTERM, 143. What a command
    does when it is cancelled takes a bounded time; another signal would tear it apart.
    """
    received, results = list[int](), list[Result]()

    async def until_told() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel = task.cancel  # of the task alone: what it has started in the background ends when it says so

        def end(number: int, frame: FrameType | None) -> None:
            if not received:
                received.append(number)
                loop.call_soon_threadsafe(cancel)
            for each in ENDINGS:
                signal.signal(each, signal.SIG_IGN)

        before = {number: signal.signal(number, end) for number in ENDINGS}
        try:
            results.append(await main(*arguments))
        except asyncio.CancelledError:
            if not received:
                raise
        finally:
            if not received:
                for number, handler in before.items():
                    signal.signal(number, handler)

    anyio.run(until_told)
    if received == [signal.SIGTERM]:
        raise SystemExit(128 + signal.SIGTERM)
    if received:
        raise KeyboardInterrupt
    return results[0]
