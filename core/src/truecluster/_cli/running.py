"""The event loop of a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from .endings import Endings

Result = TypeVar("Result")


def run(endings: Endings, main: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
    """As `anyio.run`, but what ends the command cancels ``main``, and is raised afterwards."""

    async def until_told() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel = task.cancel  # of the task alone: what it has started in the background ends when it says so
        with endings.telling(lambda: loop.call_soon_threadsafe(cancel)):
            return await main(*arguments)

    try:
        return anyio.run(until_told)
    except asyncio.CancelledError:
        endings.check()
        raise
