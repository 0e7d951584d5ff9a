"""The identity of a checkpoint as another process finds it, in which texts hash otherwise."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

from truecluster.api import Checkpoint, OpenOptions

from .rules import Broken

PATIENCE_S = 60.0
"""Seconds for another process to import the source and open a small file."""


def identity_elsewhere(target: str, path: Path) -> str:
    """The identity that a source, ``"module:Name"``, gives in a new process. Raises `Broken` where it gives none."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", __name__, target, str(path)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    except subprocess.CalledProcessError as error:
        raise Broken("an identity in another process too", error.stderr.strip()[-300:], {"path": path.name}) from error
    except subprocess.TimeoutExpired as error:
        raise Broken("an identity in another process too", error, {"path": path.name}) from error
    return done.stdout.splitlines()[-1]


def main(target: str, path: str) -> None:
    """Print it, as the last line."""
    module, _, name = target.partition(":")
    opened = getattr(importlib.import_module(module), name)().open(path, OpenOptions())
    assert isinstance(opened, Checkpoint)
    with opened:
        print(opened.identity)


if __name__ == "__main__":
    main(*sys.argv[1:])
