"""What a worker process does that others don't: it lives no longer than the parent that started it."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable

import anyio
from anyio.to_thread import run_sync

from truecluster._node.errors import one_error
from truecluster.api import TrueClusterError

GRACE_SECONDS = 5.0
"""A connection may end before the pipe does; then the parent, not the child, says what happened."""


async def while_parent_lives(work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work`` until standard input ends, which the parent holds open as long as it lives."""
    left = anyio.Event()

    async def watch() -> None:
        await run_sync(os.read, sys.stdin.fileno(), 1, abandon_on_cancel=True)
        left.set()
        tasks.cancel_scope.cancel()

    with one_error():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                await work()
            except TrueClusterError:
                with anyio.move_on_after(GRACE_SECONDS):
                    await left.wait()
                if not left.is_set():
                    raise
            tasks.cancel_scope.cancel()
