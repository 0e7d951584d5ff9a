"""Blocking work that may be stuck inside a library: it must keep neither its task nor the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

T = TypeVar("T")


async def run_daemon(call: Callable[[], T]) -> T:
    """What ``call`` gives, in a daemon thread of its own. A cancelled wait leaves the thread to itself."""
    done, outcome, token = anyio.Event(), Future[T](), anyio.lowlevel.current_token()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)
        with suppress(RuntimeError):  # the event loop has ended meanwhile
            anyio.from_thread.run_sync(done.set, token=token)

    threading.Thread(target=work, name="loading", daemon=True).start()
    await done.wait()
    return outcome.result()
