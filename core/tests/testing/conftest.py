"""Runs a suite against a double that is defined in the same test module."""

from __future__ import annotations

from collections.abc import Callable

import pytest


class _Recorder:
    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2].partition("[")[0]
        if report.failed:
            self.failed.add(name)
        elif report.when == "call":
            self.passed.add(name)


@pytest.fixture
def failures(request: pytest.FixtureRequest) -> Callable[..., set[str]]:
    """``failures(suite)`` → the names of the tests of ``suite``, a class of the calling module, that fail.

    ``failures(suite, name)`` runs only the test of that name.
    """

    def run(suite: type, name: str = "") -> set[str]:
        recorder = _Recorder()
        options = ["-q", "-p", "no:cacheprovider", "-o", f"python_classes={suite.__name__}", "-o", "timeout=0"]
        where = "::".join(filter(None, [str(request.path), suite.__name__, name]))
        pytest.main([where, *options], plugins=[recorder])
        assert recorder.passed | recorder.failed, f"no test of {suite.__name__} was run"
        return recorder.failed

    return run
