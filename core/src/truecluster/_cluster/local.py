"""Workers on this machine: fresh interpreters, or, for transports that reach only this process, tasks in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

import attrs

STOP_SECONDS = 10.0
NOT_THEIRS = ("TRUECLUSTER_KEY", "TRUECLUSTER_API_KEY")
"""Variables that workers need nothing of: the cluster's key comes to them otherwise, and they serve no API."""


@attrs.frozen(kw_only=True)
class Join:
    """What a child is told on its standard input, so that no key is ever in an argument list."""

    host: str
    port: int
    key: str = attrs.field(repr=False)

    def line(self) -> bytes:
        return json.dumps(attrs.asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, source: IO[bytes]) -> Join | None:
        """``None`` where the parent went away without a word."""
        line = source.readline()
        return cls(**json.loads(line)) if line else None


class Workers:
    """Child processes that join once they are told where. Ending the block ends them all."""

    def __init__(self, arguments: Sequence[Sequence[str]], environment: Mapping[str, str]) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_THEIRS}
        self._children = [
            subprocess.Popen(
                [sys.executable, "-m", "truecluster", "node", "--join-from-stdin", *each],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is ours; they end with their standard input
                env={**inherited, **environment},
            )
            for each in arguments
        ]

    def join(self, where: Join) -> None:
        """Tell every child where to go; its standard input then stays open for as long as we live."""
        for child in self._children:
            assert child.stdin is not None
            with suppress(BrokenPipeError):  # it ended already, which `ended` reports
                child.stdin.write(where.line())
                child.stdin.flush()

    def ended(self) -> tuple[int, int] | None:
        """Which child has ended, and its exit status, negative where a signal killed it; ``None`` while all live."""
        codes = ((index, child.poll()) for index, child in enumerate(self._children))
        return next(((index, code) for index, code in codes if code is not None), None)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        for child in self._children:
            assert child.stdin is not None
            with suppress(BrokenPipeError):
                child.stdin.close()
        for child in self._children:
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
