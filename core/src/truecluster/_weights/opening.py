"""From what the user typed to an opened checkpoint: sources hand on until one opens."""

from __future__ import annotations

from truecluster._registry import Registry
from truecluster.api import Checkpoint, CheckpointError, OpenOptions

MAX_HOPS = 8
"""References that may lead to each other, such as hub id → folder."""


def open_checkpoint(registry: Registry, reference: str, options: OpenOptions) -> Checkpoint:
    """Open a model. Raises `CheckpointError` or `PluginError`, naming the reference and what to do."""
    seen: list[str] = []
    for _ in range(MAX_HOPS):
        seen.append(reference)
        opened = registry.checkpoint_source(reference).open(reference, options)
        if isinstance(opened, Checkpoint):
            return opened
        reference = opened
    raise CheckpointError(f"model reference {seen[0]!r} leads nowhere: {' → '.join(seen)}")
