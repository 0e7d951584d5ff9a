"""Trying grammars before they are compiled here, where nothing could stop that."""

from __future__ import annotations

import atexit
import json
import signal
import subprocess
import sys
import threading
from functools import lru_cache

from truecluster.api import Busy

from .turns import Turns

SECONDS = 5
"""Of a processor's time that one grammar may take."""
PATIENCE = 60.0
"""Seconds for an answer, on however busy a machine."""
KEPT = 64
"""Grammars whose trial is remembered."""
_RETRY = 1


class _Ended(Exception):
    """The process ended, and not for what a grammar cost."""


class Trials:
    """One process that tries one grammar after another, from any thread; a new one follows when it was ended."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._process: subprocess.Popen[str] | None = None
        self._answers = lru_cache(KEPT)(self._try)

    def wrong(self, source: str) -> str | None:
        """What is wrong with a grammar, if anything is. Raises `Busy` where too many wait for an answer."""
        with self._turns.turn():
            try:
                return self._answers(source)
            except _Ended:  # isn't remembered, unlike an answer
                raise Busy("the process that tries grammars ended", _RETRY) from None

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _try(self, source: str) -> str | None:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            process.stdin.write(json.dumps(source) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            watch.cancel()
        if answer:
            wrong: str | None = json.loads(answer)
            return wrong
        self.stop()
        if sys.platform != "win32" and process.returncode != -signal.SIGPROF:
            raise _Ended
        return f"compiling it takes more than {SECONDS} seconds"

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._process is None:
            self._process = self._started()
        return self._process

    def _started(self) -> subprocess.Popen[str]:
        """Away from the terminal, whose Ctrl-C is for its owner; it ends when its input does."""
        return subprocess.Popen(
            [sys.executable, "-m", "truecluster._text.trial", str(SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )


TRIALS = Trials()
"""The process's own; nothing is started before a grammar is tried."""
atexit.register(TRIALS.stop)
