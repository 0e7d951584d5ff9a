"""How soon the commands answer that a person types while looking around."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.figures import Figure, Settings

COMMANDS = (("--help",), ("plugin", "list"))
HEAVY = ("torch", "transformers", "numpy")
TARGET_S = 0.3
HUNDRED_TARGET_S = 0.5
DUMMY = """
from truecluster.api import PlannerSpec, hookimpl

@hookimpl
def truecluster_planners():
    yield PlannerSpec(name="dummy-{i}", target="tcplug_dummy_{i}:Dummy")
"""
PROBE = """
import sys
sys.argv = ["tc", *sys.argv[1:]]
from truecluster._cli.app import main
try:
    main()
finally:
    print(*(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""


def cli(settings: Settings) -> Iterator[Figure]:
    """Wall time of a fresh process; heavy modules that it has imported when it ends."""
    for command in COMMANDS:
        name = f"tc {' '.join(command)}"
        seconds = [_seconds(command) for _ in range(settings.runs)]
        yield Figure(name=name, samples=seconds, unit="s", higher=False, target=TARGET_S)
        heavy = _imported(command)
        how = "imports " + (", ".join(heavy) or f"none of {', '.join(HEAVY)}")
        yield Figure(name=f"{name}, imports", samples=[len(heavy)], unit="", higher=False, target=0, how=how)


def cli_hundred(settings: Settings) -> Iterator[Figure]:
    """Wall time of a fresh process with a hundred plugins more on sys.path, each a module that offers a planner."""
    with tempfile.TemporaryDirectory() as site:
        for i in range(100):
            _write_dummy(Path(site), i)
        for command, target in ((("--help",), HUNDRED_TARGET_S), (("plugin", "list"), None)):
            seconds = [_seconds(command, PYTHONPATH=site) for _ in range(settings.runs)]
            name = f"tc {' '.join(command)}, a hundred plugins"
            yield Figure(name=name, samples=seconds, unit="s", higher=False, target=target)


def _write_dummy(site: Path, i: int) -> None:
    info = site / f"tcplug_dummy_{i}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tcplug-dummy-{i}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[truecluster.plugins]\ndummy-{i} = tcplug_dummy_{i}\n")
    (site / f"tcplug_dummy_{i}.py").write_text(DUMMY.format(i=i))


def _seconds(command: tuple[str, ...], **variables: str) -> float:
    tc = Path(sys.executable).parent / "tc"
    begin = time.perf_counter()
    subprocess.run([tc, *command], check=True, capture_output=True, env={**os.environ, **variables})
    return time.perf_counter() - begin


def _imported(command: tuple[str, ...]) -> list[str]:
    probe = [sys.executable, "-c", PROBE.format(heavy=HEAVY), *command]
    return subprocess.run(probe, check=True, capture_output=True, text=True).stderr.split()
