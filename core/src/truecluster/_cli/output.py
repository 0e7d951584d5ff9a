"""Standard output of a command that answers with JSON: that, and nothing that a plugin prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TextIO

_answers: ContextVar[TextIO | None] = ContextVar("answers", default=None)


@contextmanager
def only_answers() -> Iterator[None]:
    """What is printed inside goes to standard error, but for `print_json`."""
    before = _answers.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _answers.reset(before)


def print_json(text: str) -> None:
    """The answer of a command with ``--json``."""
    print(text, file=_answers.get(), flush=True)
