"""The process in which contracts are run: wishes come on standard input, events go to standard output, as JSON.

What plugins print goes to standard error. Its folder is empty but for what it writes there itself.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUITE = Path("test_contracts.py")
SOURCE = """
from truecluster.testing._check import child
globals().update(child.CONTRACTS)
"""
START_S = 120.0
"""Importing everything and collecting the rules may take so long."""
CONTRACTS: dict[str, type] = {}
"""What `SUITE` holds when pytest collects it."""
OPTIONS = (
    "--config-file=pytest.ini",
    "--rootdir=.",
    "--noconftest",
    "--import-mode=importlib",
    "--quiet",
    "--tb=short",
    *("-p", "no:cacheprovider"),
    *("-p", "no:faulthandler"),
)


def main() -> None:
    """Ends the process, whatever threads a plugin has left behind."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(event: dict[str, Any]) -> None:
        events.write(f"{json.dumps(event)}\n")
        events.flush()

    wanted = json.load(sys.stdin)
    sys.path[:] = wanted.pop("path")
    refused = _run(say, **wanted)
    say({"event": "end", "refused": refused})
    os._exit(0)


def _run(
    say: Callable[[dict[str, Any]], None], offers: list[tuple[str, str]], only: str, done: list[str], limit: float
) -> str:
    """Why nothing could be run, where nothing could."""
    trace = open("trace", "w", encoding="utf-8")  # noqa: SIM115 - open until the process ends, for what ends it
    faulthandler.enable(trace)
    faulthandler.dump_traceback_later(START_S, exit=True, file=trace)
    import pytest

    from truecluster.api import PluginError

    from .._contract import registry
    from .contracts import contracts
    from .recorder import Recorder

    try:
        found = [each for offer in offers for each in contracts(registry(), _usable(registry(), *offer))]
    except PluginError as error:
        return str(error)
    CONTRACTS.update({f"Test{number}": each for number, each in enumerate(found)})
    SUITE.write_text(SOURCE, encoding="utf-8")
    Path("pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    recorder = Recorder(registry(), say, only, frozenset(done), limit, trace)
    code = pytest.main([str(SUITE), *OPTIONS], plugins=[recorder])
    ran = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return recorder.refused if ran or recorder.refused else f"pytest failed ({code})"


def _usable(registry: Any, kind: str, name: str) -> Any:
    """The offer, its target importable. Raises `PluginError`."""
    if kind != "quantizer":
        registry.resolve(kind, name)
    return registry.offer(kind, name)
