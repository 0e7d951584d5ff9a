"""Waiting for the first of several things."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from truecluster._node.errors import one_error

Made = TypeVar("Made")


async def any_of(*events: anyio.Event) -> None:
    """Return once one of them is set."""
    async with anyio.create_task_group() as tasks:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        for event in events:
            tasks.start_soon(wait, event)


async def unless(event: anyio.Event, make: Callable[..., Awaitable[Made]], *arguments: object) -> Made | None:
    """What ``make`` gives, or ``None`` if the event is set before it is done: it is cancelled then."""
    made: Made | None = None
    with one_error():
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await event.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            made = await make(*arguments)
            tasks.cancel_scope.cancel()
    return made
