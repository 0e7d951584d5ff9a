"""Work that ends with its client: nobody computes for a closed connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")


async def while_connected(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """The result of ``work``, which is cancelled when the client goes; then raises `ClientDisconnect`.

    The body must have been read: what the connection says next is that it is closed.
    """
    results: list[T] = []
    failures: list[Exception] = []

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            results.append(await work())
        except Exception as error:
            failures.append(error)
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not results:
        raise ClientDisconnect
    return results[0]
