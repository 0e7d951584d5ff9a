"""Which files of a folder hold which tensors."""

from __future__ import annotations

from pathlib import Path

from truecluster.api import CheckpointError

from .files import inside, parse_object, read_text
from .safetensors_file import SafetensorsFile, open_file

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def open_shards(folder: Path) -> dict[str, SafetensorsFile]:
    """Tensor name → the open file that holds it. Raises `CheckpointError` naming what is missing or damaged."""
    if inside(folder, SINGLE).exists():
        file = open_file(folder / SINGLE)
        return dict.fromkeys(file.entries, file)
    text = read_text(folder, INDEX)
    if text is None:
        raise CheckpointError(_no_weights(folder))
    return _indexed(folder, text)


def _indexed(folder: Path, text: str) -> dict[str, SafetensorsFile]:
    places = parse_object(folder / INDEX, text).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{folder / INDEX}: weight_map must map tensor names to file names")
    files = {name: open_file(inside(folder, name)) for name in sorted(set(places.values()))}
    for tensor, name in places.items():
        if tensor not in files[name].entries:
            raise CheckpointError(f"{folder / name}: tensor {tensor!r} is missing, which {INDEX} places there")
    return {tensor: files[name] for tensor, name in places.items()}


def _no_weights(folder: Path) -> str:
    for pattern in PICKLES:
        for path in folder.glob(pattern):
            return f"{folder}: its weights are in {path.name}, which can run code when opened; safetensors or GGUF only"
    found = sorted(path.name for path in folder.glob("*.safetensors"))
    others = f"; it has {', '.join(found[:8])}" if found else ""
    return f"{folder}: there is neither {SINGLE} nor {INDEX}{others}"
