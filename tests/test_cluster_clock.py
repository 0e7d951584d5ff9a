"""Deadlines come from a clock that nobody can set (DIST-15)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
WALL = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}
TELLS_THE_TIME = {
    "answers.py": "the created field of an answer",
    "hosting.py": "the created field of a model",
    "machine.py": "the clock, which tc doctor looks at",
    "environment.py": "the date in a chat template",
    "eviction.py": "when a stored file was used last",
}
"""Where a time of day is what is meant; none of them waits for anything."""


def asks_the_wall_clock(file: Path) -> bool:
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return any(ast.unparse(call.func) in WALL for call in calls)


def test_only_what_tells_the_time_asks_the_wall_clock() -> None:
    files = [file for file in ROOT.glob("**/src/**/*.py") if not {".venv", "build"} & set(file.parts)]
    assert len(files) > 100
    assert {file.name for file in files if asks_the_wall_clock(file)} == set(TELLS_THE_TIME)
