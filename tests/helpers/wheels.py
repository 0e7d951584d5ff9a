"""Every package of the workspace as a wheel, and a virtual environment of the wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
MANIFESTS = [
    *ROOT.glob("core/pyproject.toml"),
    *ROOT.glob("tcplug_*/pyproject.toml"),
    *ROOT.glob("plugins/*/pyproject.toml"),
]
LEFT_BEHIND = shutil.ignore_patterns("build", "dist", "tests", "*.egg-info", "__pycache__", "*.so", "*.dylib")


def run(*command: str | Path) -> str:
    """What it prints; it must end well."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(home: Path) -> list[Path]:
    """From copies, so that neither what an earlier build left nor the build itself touches the tree."""
    sources, out = home / "sources", home / "wheels"
    projects = [manifest.parent for manifest in MANIFESTS]
    copies = [shutil.copytree(project, sources / project.name, ignore=LEFT_BEHIND) for project in projects]
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", out, *copies)
    return sorted(out.glob("*.whl"))


def installed(wheels: Sequence[Path], home: Path) -> Path:
    """The commands of a virtual environment of the wheels, which finds their dependencies where the tests do.

    The editable installations there are ``.pth`` files, which count only in an environment's own folder.
    """
    venv.create(home, with_pip=False)
    folder = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (folder / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python"]
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", *wheels)
    return home / "bin"
