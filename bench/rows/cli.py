"""How soon the commands answer that a person types while looking around."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.figures import Figure, Settings

COMMANDS = (("--help",), ("plugin", "list"))
HEAVY = ("torch", "transformers", "numpy")
TARGET_S = 0.3
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


def _seconds(command: tuple[str, ...]) -> float:
    tc = Path(sys.executable).parent / "tc"
    begin = time.perf_counter()
    subprocess.run([tc, *command], check=True, capture_output=True)
    return time.perf_counter() - begin


def _imported(command: tuple[str, ...]) -> list[str]:
    probe = [sys.executable, "-c", PROBE.format(heavy=HEAVY), *command]
    return subprocess.run(probe, check=True, capture_output=True, text=True).stderr.split()
