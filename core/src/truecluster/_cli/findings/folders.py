"""Folders that are written to: whether they can be, and how much room there is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .finding import FAIL, WARN, Finding, gigabytes

LITTLE = 5 * 10**9
"""Bytes; a model of some billions of weights in int4 takes about as much."""
NONE = 10**8


def look(work_dir: Path) -> Iterator[Finding]:
    """The folder of packed weights, and the one for what passes through."""
    yield folder("packed weights", work_dir, "choose another folder with --work-dir")
    yield folder("temporary files", Path(tempfile.gettempdir()), "choose another folder with TMPDIR")


def folder(name: str, path: Path, elsewhere: str) -> Finding:
    """A folder that may still have to be made; what is made to find out is removed."""
    try:
        there = _nearest(path)
        tempfile.TemporaryFile(dir=there).close()
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Finding(name, f"{path} can't be written: {error.strerror or error}", FAIL, elsewhere)
    text = f"{path}: {free} bytes ({gigabytes(free)}) free"
    if free < LITTLE:
        return Finding(name, text, FAIL if free < NONE else WARN, f"free some, or {elsewhere}")
    return Finding(name, text)


def _nearest(path: Path) -> Path:
    """The folder, or the one that it would be made in. Raises `OSError` for what is no folder."""
    for each in (path, *path.absolute().parents):
        if each.exists():
            os.listdir(each)
            return each
    raise FileNotFoundError(f"no folder above {path} exists")
