"""Where a folder's weights are, by its files' names and its index. Imports no tensor library."""

from __future__ import annotations

from pathlib import Path

from truecluster.api import CheckpointError

from .files import parse_object, read_text

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def shard_names(folder: Path) -> list[str]:
    """The files that the index names, sorted."""
    return sorted(set(tensor_places(folder).values()))


def tensor_places(folder: Path) -> dict[str, str]:
    """Tensor name → file name, from the index."""
    text = read_text(folder, INDEX)
    if text is None:
        raise CheckpointError(_no_weights(folder))
    places = parse_object(folder / INDEX, text).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{folder / INDEX}: weight_map must map tensor names to file names")
    return places


def _no_weights(folder: Path) -> str:
    for pattern in PICKLES:
        for path in folder.glob(pattern):
            return f"{folder}: its weights are in {path.name}, which can run code when opened; safetensors or GGUF only"
    found = sorted(path.name for path in folder.glob("*.safetensors"))
    others = f"; it has {', '.join(found[:8])}" if found else ""
    return f"{folder}: there is neither {SINGLE} nor {INDEX}{others}"
