"""Worker processes: told where to join on standard input, and gone when the block ends."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from truecluster._cluster import local
from truecluster._cluster.local import Join, Workers

JOIN = Join(host="127.0.0.1", port=7001, key="secret")
OBEYS = "import sys; sys.exit(0 if sys.stdin.readline() and not sys.stdin.read() else 3)"
STUBBORN = "import time; time.sleep(60)"
FAILS = "import sys; sys.exit(4)"


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts `Workers` that run other programs."""
    real = subprocess.Popen
    started: list[subprocess.Popen[bytes]] = []

    def popen(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        started.append(real([sys.executable, "-c", command[-1]], **how))
        return started[-1]

    def start(*programs: str) -> tuple[Workers, list[subprocess.Popen[bytes]]]:
        return Workers([[program] for program in programs], {}), started

    monkeypatch.setattr(local.subprocess, "Popen", popen)
    yield start
    for child in started:
        child.kill()
        child.wait()


def until_ended(workers: Workers) -> tuple[int, int]:
    end = time.monotonic() + 20
    while (ended := workers.ended()) is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    return ended


def test_what_a_child_is_told_comes_back_and_the_key_is_not_shown() -> None:
    assert Join.read(io.BytesIO(JOIN.line())) == JOIN
    assert Join.read(io.BytesIO()) is None
    assert "secret" not in repr(JOIN)


def test_children_end_with_their_standard_input(workers: Any) -> None:
    group, children = workers(OBEYS, OBEYS)
    with group:
        group.join(JOIN)
        assert group.ended() is None
    assert [child.returncode for child in children] == [0, 0]


def test_a_child_that_ended_is_noticed_and_can_still_be_told(workers: Any) -> None:
    group, _ = workers(OBEYS, FAILS)
    with group:
        assert until_ended(group) == (1, 4)
        group.join(JOIN)


def test_a_child_that_does_not_end_is_killed(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "STOP_SECONDS", 0.2)
    group, children = workers(STUBBORN)
    with group:
        group.join(JOIN)
    assert children[0].returncode == -9


def test_a_child_that_a_signal_killed_is_known_by_it(workers: Any) -> None:
    group, children = workers(STUBBORN, STUBBORN)
    with group:
        children[1].kill()
        assert until_ended(group) == (1, -9)
        children[0].kill()


def test_workers_inherit_no_key(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster's comes to them otherwise, and the API's is not their business."""
    for name in ("TRUECLUSTER_KEY", "TRUECLUSTER_API_KEY", "TRUECLUSTER_PLUGINS"):
        monkeypatch.setenv(name, "inherited")
    group, _ = workers("import os, sys; sys.exit(sum(value == 'inherited' for value in os.environ.values()))")
    with group:
        assert until_ended(group) == (0, 1)


def test_no_key_in_any_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if "key" in each.lower()]:  # of whoever runs the tests
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRUECLUSTER_KEY", "secret")
    seen: list[str] = []

    class Fake:
        def __init__(self, command: list[str], **how: Any) -> None:
            seen.extend([*command, *how["env"]])

    monkeypatch.setattr(local.subprocess, "Popen", Fake)
    Workers([["--node-id", "a"]], {"OMP_NUM_THREADS": "1"})
    assert "--join-from-stdin" in seen
    assert not [text for text in seen if "key" in text.lower()]
