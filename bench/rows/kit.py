"""How long an author waits for a plugin that works."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

from tools.figures import Figure, Settings

from truecluster._scaffold import KINDS

TARGET_S = 60.0


def kit(settings: Settings) -> Iterator[Figure]:
    """`tc plugin new`, `pip install -e` and `tc plugin check`, nothing edited, one thread each; taken once."""
    with tempfile.TemporaryDirectory(prefix="tc-bench-") as folder:
        author = Path(folder)
        python = _environment(author / "environment")
        for kind in KINDS:
            seconds = _seconds(kind, python, author)
            yield Figure(name=f"new plugin, {kind}", samples=[seconds], unit="s", higher=False, target=TARGET_S)


def _environment(home: Path) -> Path:
    """An interpreter that finds what this one finds, editable installations included; what it installs is its own."""
    venv.create(home, with_pip=False)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (own / "everything.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return home / "bin" / "python"


def _seconds(kind: str, python: Path, author: Path) -> float:
    folder = author / f"tcplug_fresh_{kind}"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    tc = [python, "-m", "truecluster", "plugin"]
    begin = time.perf_counter()
    _run(author, *tc, "new", kind, f"fresh_{kind}")
    _run(author, *pip, "--no-build-isolation", "--editable", folder)
    _run(author, *tc, "check", folder.name)
    return time.perf_counter() - begin


def _run(folder: Path, *command: str | Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(list(map(str, command)), cwd=folder, check=True, capture_output=True, env=environment)
