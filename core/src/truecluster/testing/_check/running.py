"""The caller's side: starts the process that runs contracts, hears it, and goes on in another where it ends early."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

from truecluster.api import PluginError

from .child import START_S
from .outcomes import BROKEN, Outcome

GRACE_S = 20.0
"""A process that says nothing for this much longer than a test may take is ended from outside."""
POLL_S = 0.2
FOREIGN = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+)', re.MULTILINE)


@attrs.frozen(kw_only=True)
class Wanted:
    """``offers`` as (kind, name); ``only`` the rule of that name, ``limit`` seconds for one case of one."""

    offers: Sequence[tuple[str, str]]
    only: str = ""
    limit: float = 120.0


@attrs.frozen
class Collected:
    """So many cases are to come."""

    tests: int


@attrs.frozen
class Ended:
    """One case was run."""

    outcome: Outcome


Event = Collected | Ended


def check(wanted: Wanted) -> Iterator[Event]:
    """Run the contracts of what is ``wanted``.

    Raises `PluginError` where that can't be: a plugin or a contract that can't be imported or used, an unknown rule.
    """
    ended: list[str] = []
    told = False
    while True:
        with _Child(wanted, ended) as child:
            before = len(ended)
            for event in child.events():
                if event["event"] == "end":
                    if event["refused"]:
                        raise PluginError(event["refused"])
                    return
                if event["event"] == "collected" and not told:
                    told = True
                    yield Collected(event["tests"])
                elif event["event"] == "ended":
                    ended.append(event["id"])
                    yield Ended(Outcome(**event["outcome"]))
            if child.under_way is None:
                raise PluginError(f"the check ended before it was done: {child.how()}; {child.last_words()}")
            ended.append(child.under_way["id"])
            assert len(ended) > before
            yield Ended(child.wreck())


class _Child:
    """One process; leaving the block ends it and what it has started."""

    def __init__(self, wanted: Wanted, done: Sequence[str]) -> None:
        self._wanted = wanted
        self._folder = tempfile.TemporaryDirectory(prefix="truecluster-check-", ignore_cleanup_errors=True)
        self._path = Path(self._folder.name)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._late = False
        self._since = time.monotonic()
        self.under_way: Mapping[str, Any] | None = None
        with (self._path / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __package__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self._path,
                env=_environment(),
                start_new_session=os.name == "posix",
            )
        said = {**attrs.asdict(wanted), "done": list(done), "path": [os.path.abspath(each) for each in sys.path]}
        threading.Thread(target=self._talk, args=(json.dumps(said),), daemon=True).start()

    def _talk(self, said: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError), self._process.stdin as stdin:
            stdin.write(said.encode())
        with self._process.stdout as stdout:
            for line in stdout:
                self._lines.put(line.decode())
        self._lines.put(None)

    def events(self) -> Iterator[dict[str, Any]]:
        """Until it is done or gone; what it started may live on and hold its output open."""
        while (line := self._next()) is not None:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "started":
                self.under_way, self._since = event, time.monotonic()
            elif event["event"] == "ended":
                self.under_way = None
            yield event

    def _next(self) -> str | None:
        waited = 0.0
        while waited < max(self._wanted.limit, START_S) + GRACE_S:
            gone = self._process.poll() is not None
            with suppress(queue.Empty):
                return self._lines.get(timeout=POLL_S)
            if gone:
                return None
            waited += POLL_S
        self._late = True
        return None

    def how(self) -> str:
        """In which way it ended."""
        if self._timed_out():
            return f"it was not done after {self._wanted.limit:g} s"
        code = self._process.wait(GRACE_S)
        return f"the process ended by {signal.Signals(-code).name}" if code < 0 else f"the process exited with {code}"

    def wreck(self) -> Outcome:
        """What came of the test that the process ended in."""
        assert self.under_way is not None
        return attrs.evolve(
            Outcome(**self.under_way["outcome"]),
            state=BROKEN,
            seconds=time.monotonic() - self._since,
            expected=f"that it is done within {self._wanted.limit:g} s" if self._timed_out() else "that it ends",
            came=self.how(),
            where=self._place(self.under_way["folders"]),
        )

    def last_words(self) -> str:
        """The end of what it wrote on standard error."""
        return (self._path / "stderr").read_text(errors="replace").strip()[-1000:] or "it said nothing"

    def _timed_out(self) -> bool:
        return self._late or "Timeout (" in self._trace()

    def _trace(self) -> str:
        trace = self._path / "trace"
        return trace.read_text(errors="replace") if trace.exists() else ""

    def _place(self, folders: Sequence[str]) -> str | None:
        for frame in FRAME.finditer(self._trace()):
            if any(frame["file"] == each or frame["file"].startswith(f"{each}{os.sep}") for each in folders):
                return f"{frame['file']}:{frame['line']}"
        return None

    def __enter__(self) -> _Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL) if os.name == "posix" else self._process.kill()
        self._process.wait(GRACE_S)
        self._folder.cleanup()


def _environment() -> dict[str, str]:
    """Without what would bring the caller's pytest options and plugins in."""
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONUNBUFFERED": "1"}
