"""Help and listings stay quick: what they import is held by a test, how long they take by ``make bench``."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    *("torch", "transformers", "numpy", "rich", "fastapi", "cattrs", "tokenizers", "huggingface_hub", "asyncio"),
    *("llguidance", "pytest", "hypothesis"),
}

SCRIPT = """
import sys
sys.argv = ["tc", *{arguments!r}]
from truecluster._cli import main
try:
    main()
finally:
    print("\\nloaded:", *sorted(set(sys.modules) & {heavy!r}))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["plugin", "--help"], ["plugin", "list"], ["plugin", "list", "--json"]]
)
def test_no_heavy_import(arguments: list[str]) -> None:
    script = SCRIPT.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "loaded:"
