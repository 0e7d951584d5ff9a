"""Which files of a folder hold which tensors."""

from __future__ import annotations

from pathlib import Path

from truecluster.api import CheckpointError

from .files import inside
from .index import INDEX, SINGLE, shard_names, tensor_places
from .safetensors_file import SafetensorsFile, open_file


def open_shards(folder: Path) -> dict[str, SafetensorsFile]:
    """Tensor name → the open file that holds it. Raises `CheckpointError` naming what is missing or damaged."""
    if inside(folder, SINGLE).exists():
        file = open_file(folder / SINGLE)
        return dict.fromkeys(file.entries, file)
    files = {name: open_file(inside(folder, name)) for name in shard_names(folder)}
    places = tensor_places(folder)
    for tensor, name in places.items():
        if tensor not in files[name].entries:
            raise CheckpointError(f"{folder / name}: tensor {tensor!r} is missing, which {INDEX} places there")
    return {tensor: files[name] for tensor, name in places.items()}
