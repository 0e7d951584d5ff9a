"""Progress is on standard error only: bars at a terminal, now and then a line elsewhere."""

from __future__ import annotations

import codecs
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from truecluster._cli.options import set_log_level
from truecluster._cli.progress import LINE_SECONDS, Progress


class Clock:
    """Time that passes only when told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_quick_task_says_nothing(capsys, clock):
    with Progress(clock).task("sending weights to b", 600_000_000) as advance:
        for done in range(0, 600_000_001, 50_000_000):
            advance(done)
            clock.now += 0.4
    assert capsys.readouterr() == ("", "")


def test_a_long_task_says_how_far_it_is_now_and_then(capsys, clock):
    """600 MB at 20 MB/s take 30 s: a line every 5 s, which is 100 MB."""
    with Progress(clock).task("sending weights to b", 600_000_000) as advance:
        advance(0)
        for done in range(10_000_000, 600_000_001, 10_000_000):
            clock.now += 0.5
            advance(done)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "sending weights to b: 100.0 of 600.0 MB, 20.0 MB/s, 25 s left",
        "sending weights to b: 200.0 of 600.0 MB, 20.0 MB/s, 20 s left",
        "sending weights to b: 300.0 of 600.0 MB, 20.0 MB/s, 15 s left",
        "sending weights to b: 400.0 of 600.0 MB, 20.0 MB/s, 10 s left",
        "sending weights to b: 500.0 of 600.0 MB, 20.0 MB/s, 5 s left",
        "sending weights to b: 600.0 of 600.0 MB, 20.0 MB/s, 0 s left",
    ]


def test_the_rate_is_of_this_time_not_of_what_was_there_before(capsys, clock):
    with Progress(clock).task("sending weights to b", 600_000_000) as advance:
        advance(500_000_000)
        clock.now += LINE_SECONDS
        advance(550_000_000)
    assert capsys.readouterr().err == "sending weights to b: 550.0 of 600.0 MB, 10.0 MB/s, 5 s left\n"


def test_a_task_that_stands_still_says_so(capsys, clock):
    with Progress(clock).task("loading weights on b", 6_000_000) as advance:
        advance(0)
        clock.now += LINE_SECONDS
        advance(0)
    assert capsys.readouterr().err == "loading weights on b: 0.0 of 6.0 MB, 0.0 MB/s, stalled\n"


class Screen:
    """What is seen at the terminal that standard error is."""

    def __init__(self, ours: int) -> None:
        self._ours = ours
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a terminal may hand over half of a letter

    def read(self, until: str = "") -> str:
        """What was drawn since the last look; a terminal may hand over ``until`` a little later."""
        text, deadline = "", time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                text += self._decoder.decode(os.read(self._ours, 1 << 20))
            except BlockingIOError:
                time.sleep(0.01)
            if until in text:
                break
        return text


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """For the test's body only: pytest exchanges standard error between a test and its fixtures."""
    pty = pytest.importorskip("pty", reason="needs pseudo terminals")
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        yield Screen(ours)
    os.close(ours)


def test_bars_show_bytes_rate_and_time_left_and_go_away(monkeypatch, capsys):
    progress, line = Progress(), "tc node --cluster-host 10.0.0.1 " + "x" * 200
    drawn, until = "", time.monotonic() + 20
    with terminal(monkeypatch) as screen:
        task = progress.task
        with task("sending weights to [b]", 600_000_000) as first, task("sending weights to c", 9_000_000):
            progress.say(line)
            done = 0
            while "MB/s" not in drawn and time.monotonic() < until:
                first(done := done + 1_000_000)
                time.sleep(0.1)
                drawn += screen.read()
        drawn += screen.read("\x1b[?25h\r")
        assert sys.stderr.isatty()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    assert re.search(r"sending weights to \[b\] +━+ +\d+\.0/600\.0 MB +\d+(\.\d)? MB/s +\d:\d\d:\d\d", text), text
    assert re.search(r"sending weights to c +━+ +0\.0/9\.0 MB +\? +-:--:--", text)
    assert line in text
    assert drawn.endswith("\x1b[2K\x1b[?25h\r"), "the bars are wiped and the cursor is back"
    assert capsys.readouterr() == ("", "")


def fail(progress: Progress) -> None:
    with progress.task("sending weights to b", 10) as advance:
        advance(4)
        raise RuntimeError


def test_the_bar_of_a_task_that_fails_goes_too(monkeypatch):
    progress = Progress()
    with terminal(monkeypatch) as screen:
        with pytest.raises(RuntimeError):
            fail(progress)
        screen.read("\x1b[?25h\r")
        progress.say("the run could not start")
        assert screen.read("\n") == "the run could not start\r\n"


def test_log_lines_keep_clear_of_the_bars(monkeypatch):
    """The bars are drawn anew below each line."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with terminal(monkeypatch) as screen:
        try:
            set_log_level("info")
            with Progress().task("sending weights to b", 10):
                screen.read("-:--:--")
                logging.getLogger("truecluster").info("node c joined")
                drawn = screen.read("-:--:--")
        finally:
            root.handlers[:] = before[0]
            root.setLevel(before[1])
    assert re.search(r"\r\x1b\[2KINFO node c joined\r\nsending weights to b ", drawn)
