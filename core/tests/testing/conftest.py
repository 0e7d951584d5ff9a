"""Runs a suite against a double that is defined in a test module."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest


class _Recorder:
    """Hears how the tests of a nested run end."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]):
        report = yield
        name = item.name.partition("[")[0]
        if report.failed and call.excinfo is not None:
            self.failed.setdefault(name, str(call.excinfo.value))
        elif report.passed and report.when == "call":
            self.passed.add(name)
        return report


@pytest.fixture
def verdict() -> Callable[..., dict[str, str]]:
    """``verdict(suite)`` → name of each test of ``suite`` that fails, and the first message that it fails with.

    ``suite`` is a class of a test module; ``verdict(suite, name)`` runs only the test of that name.
    """

    def run(suite: type, name: str = "") -> dict[str, str]:
        recorder = _Recorder()
        without = ["-pno:cacheprovider", "-pno:unraisableexception"]  # the latter collects garbage for half a second
        options = ["-q", *without, f"-opython_classes={suite.__name__}", "-otimeout=0"]
        path = str(sys.modules[suite.__module__].__file__)
        pytest.main(["::".join(filter(None, [path, suite.__name__, name])), *options], plugins=[recorder])
        assert recorder.passed or recorder.failed, f"no test of {suite.__name__} was run"
        return recorder.failed

    return run


@pytest.fixture
def failures(verdict: Callable[..., dict[str, str]]) -> Callable[..., set[str]]:
    """``failures(suite)`` → the names of the tests of ``suite`` that fail."""
    return lambda suite, name="": set(verdict(suite, name))
