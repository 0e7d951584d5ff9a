"""A file mapped into memory, and tensors that look into it."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path
from typing import Any

import torch

from truecluster.api import CheckpointError

_NORESERVE = 0x4000 if sys.platform == "linux" else 0


def map_file(path: Path) -> mmap.mmap:
    """The whole file. Raises `CheckpointError` where it can't be read or is empty.

    The mapping is private and writable because torch refuses read-only buffers; nothing is written, so its pages stay
    the file's own. Without a reservation a file may be larger than memory.
    """
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, **_private())
    except ValueError:
        raise CheckpointError(f"{path}: the file is empty") from None
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read: {error.strerror or error}") from None


def _private() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"access": mmap.ACCESS_COPY}
    return {"flags": mmap.MAP_PRIVATE | _NORESERVE, "prot": mmap.PROT_READ | mmap.PROT_WRITE}


def view(mapped: mmap.mmap, start: int, stop: int) -> torch.Tensor:
    """Bytes ``start:stop`` as flat uint8, not copied; the tensor keeps the mapping alive."""
    if start == stop:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(mapped, dtype=torch.uint8, count=stop - start, offset=start)
