"""Work that ends with its client: nobody computes for a closed connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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


async def gather(work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run all at once; results in order. The first failure cancels the others and is raised, not a group."""
    results: dict[int, T] = {}
    failures: list[Exception] = []

    async def run(index: int, one: Callable[[], Awaitable[T]]) -> None:
        try:
            results[index] = await one()
        except Exception as error:
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index, one in enumerate(work):
            group.start_soon(run, index, one)
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(work))]
