"""Llama shows what a model family costs: sixty lines."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "tcplug_llama"


def formatted(source: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "100", "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True, check=True).stdout


def code_lines(source: str) -> int:
    """Lines without blanks, comments and docstrings."""
    holders = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    strings = [node.body[0] for node in holders if ast.get_docstring(node) is not None]
    skipped = {line for string in strings for line in range(string.lineno, (string.end_lineno or 0) + 1)}
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    return sum(1 for number, line in lines if line and not line.startswith("#") and number not in skipped)


def test_code_lines_are_counted_without_blanks_comments_and_docstrings() -> None:
    assert (
        code_lines('"""Doc\nstring."""\n\n# comment\nx = (\n    1\n)\n\ndef f():\n    """Doc."""\n    return 1\n') == 5
    )


def test_the_whole_package_has_at_most_sixty_lines_of_code() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if file.name != "contract.py"]  # what it is held to isn't in it
    assert sum(code_lines(formatted(file.read_text())) for file in files) <= 60
