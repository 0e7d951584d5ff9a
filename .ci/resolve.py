"""Check that everything but torch can be resolved for an older Python: ``resolve.py 3.10``.

Installs and builds nothing. torch, and what pulls it in, is left out: its metadata comes only with a wheel of half a
gigabyte. The pinned version has wheels for Python 3.10.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "accelerate"}


def requirements() -> list[Requirement]:
    """What all packages and tests ask for, without the packages of this workspace."""
    projects = [
        tomllib.loads(file.read_text())["project"] for file in sorted(ROOT.glob("**/pyproject.toml")) if _ours(file)
    ]
    own = {canonicalize_name(project["name"]) for project in projects} | HEAVY
    lines = [line for project in projects for line in project["dependencies"]]
    lines += _lines(ROOT / "dev-requirements.txt")
    return [each for each in map(Requirement, lines) if canonicalize_name(each.name) not in own]


def constraints(python: str) -> list[str]:
    """The pins that hold on that Python; pip itself would read their markers as of the Python it runs on."""
    pins = map(Requirement, _lines(ROOT / "constraints.txt"))
    environment = {"python_version": python}
    return [f"{pin.name}{pin.specifier}" for pin in pins if pin.marker is None or pin.marker.evaluate(environment)]


def _ours(file: Path) -> bool:
    return not any(part.startswith(".") for part in file.relative_to(ROOT).parts) and file.parent != ROOT


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder, "constraints.txt")
        pins.write_text("\n".join(constraints(python)))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--python-version", python, "--only-binary=:all:", "--target", folder, "--constraint", str(pins)]
        resolved = subprocess.run([*command, *sorted(set(map(str, requirements())))], capture_output=True, text=True)
    if resolved.returncode:
        sys.exit(f"does not resolve for Python {python}:\n{resolved.stderr}")
    print(f"resolves for Python {python}")


if __name__ == "__main__":
    main(sys.argv[1])
