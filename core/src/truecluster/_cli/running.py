"""The event loop of a command."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")


def run(main: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
    """As `anyio.run`, but only the first Ctrl-C counts: it cancels ``main`` and raises `KeyboardInterrupt` at its end.

    What a command does when it is cancelled takes a bounded time; another Ctrl-C would tear it apart.
    """
    interrupted, results = False, list[Result]()

    async def until_interrupted() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel = task.cancel  # of the task alone: what it has started in the background ends when it says so

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal interrupted
            interrupted = True
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            loop.call_soon_threadsafe(cancel)

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            results.append(await main(*arguments))
        except asyncio.CancelledError:
            if not interrupted:
                raise
        finally:
            if not interrupted:
                signal.signal(signal.SIGINT, before)

    anyio.run(until_interrupted)
    if interrupted:
        raise KeyboardInterrupt
    return results[0]
