"""Decides between a folder and a hub id."""

from __future__ import annotations

from pathlib import Path

from truecluster.api import Checkpoint, CheckpointSource, OpenOptions

from .checkpoint import FolderCheckpoint
from .hub import cache_of, snapshot, unreachable

PREFIX = "hf:"


class HfSource(CheckpointSource):
    """Opens a folder that has a ``config.json``; locates ``hf:ORG/NAME[@REVISION]`` and ``ORG/NAME``."""

    def open(self, reference: str, options: OpenOptions) -> Checkpoint | str:
        if not reference.startswith(PREFIX):
            folder = Path(reference).expanduser()
            if folder.is_dir():
                return FolderCheckpoint(folder.resolve())
        return snapshot(reference.removeprefix(PREFIX), options)

    def folder(self, options: OpenOptions) -> str:
        return str(cache_of(options))

    def unreachable(self, patience: float) -> str | None:
        return unreachable(patience)
