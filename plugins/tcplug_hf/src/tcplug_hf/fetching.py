"""Fetching a model in a process of its own (see `fetcher`), watched from here."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from truecluster.api import CheckpointError, OpenOptions

EVERY = 0.2
"""Seconds between two looks at how far it is, and whether it is still wanted."""


def fetch(request: Mapping[str, Any], repository: Path, options: OpenOptions) -> str:
    """The folder of the snapshot. ``repository`` is where its files grow. Raises `CheckpointError`."""
    with _fetcher(request) as messages, ExitStack() as shown:
        before = done = 0
        advance: Callable[[int], None] = _nowhere
        while True:
            options.check()
            message = _next(messages)
            done = max(done, held_bytes(repository) - before)  # a file that is being renamed is missed for a moment
            advance(done)
            if "say" in message:
                options.say(message["say"])
            if "bytes" in message:
                before, done = held_bytes(repository), 0
                advance = shown.enter_context(options.task(f"fetching {request['id']}", message["bytes"]))
            if "error" in message:
                raise CheckpointError(message["error"])
            if "folder" in message:
                return str(message["folder"])


def held_bytes(folder: Path) -> int:
    """Of all files in and below a folder, links not followed."""
    return sum(_size(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def _size(path: str) -> int:
    try:
        facts = os.lstat(path)
        return facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    except OSError:  # it was renamed a moment ago
        return 0


def _nowhere(done: int) -> None:
    pass


@contextmanager
def _fetcher(request: Mapping[str, Any]) -> Iterator[Queue[dict[str, Any]]]:
    """The messages of the process, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tcplug_hf.fetcher"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        start_new_session=True,
    )
    messages: Queue[dict[str, Any]] = Queue()
    reader = threading.Thread(target=_read, args=(process, messages.put), daemon=True)
    reader.start()
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        yield messages
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdin.close()


def _read(process: subprocess.Popen[str], put: Callable[[dict[str, Any]], None]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            put(json.loads(line))
    put({"error": f"fetching from the hub ended with status {process.wait()}; try again"})


def _next(messages: Queue[dict[str, Any]]) -> dict[str, Any]:
    try:
        return messages.get(timeout=EVERY)
    except Empty:
        return {}
