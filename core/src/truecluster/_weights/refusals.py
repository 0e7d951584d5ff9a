"""What the operating system refuses in a store's folder, in words for the user."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from truecluster.api import NodeError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REMEDY = "choose another folder with --work-dir"


@contextmanager
def naming(root: Path, size: int = 0) -> Iterator[None]:
    """The operating system's refusals as `NodeError` with the folder, and ``size``, the bytes that it was to take."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise full(root, size) from None
        raise NodeError(f"work folder {root} can't be used: {error.strerror or error}; {_REMEDY}") from None


def full(root: Path, size: int) -> NodeError:
    """The error for a folder that can't take ``size`` more bytes."""
    there = f"{shutil.disk_usage(root).free / 1e6:.1f} MB are free"
    wanted = f"{size} bytes of weights don't fit" if size else "nothing more fits"
    return NodeError(f"work folder {root} is full: {wanted}, {there}; free some or {_REMEDY}")
