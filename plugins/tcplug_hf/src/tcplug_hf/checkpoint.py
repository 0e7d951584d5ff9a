"""A folder in the hub's layout as a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truecluster.api import Checkpoint, CheckpointError, Packed, TokenizerData

from .files import parse_object, read_object, read_text
from .safetensors_file import SafetensorsFile
from .shards import open_shards
from .templates import chat_templates
from .tokenizer import read_tokenizer

CONFIG = "config.json"


class FolderCheckpoint(Checkpoint):
    """``config.json`` in memory, safetensors mapped."""

    container = "huggingface"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        text = _config(folder)
        self.name = _name(folder)
        self.metadata = parse_object(folder / CONFIG, text)
        self.model_type = _model_type(folder, self.metadata)
        self._files = open_shards(folder)
        self.tensors = {name: file.entries[name].info for name, file in self._files.items()}
        self.generation = read_object(folder, "generation_config.json")
        self.chat_templates = chat_templates(folder)
        self.identity = _identity(text, self._files)
        self._open = True

    def read(self, name: str) -> Packed:
        self._refuse_closed()
        if name not in self._files:
            raise CheckpointError(f"{self._folder}: there is no tensor {name!r}")
        return self._files[name].read(name)

    def tokenizer(self) -> TokenizerData:
        self._refuse_closed()
        return read_tokenizer(self._folder)

    def close(self) -> None:
        """Views that were read stay valid; a file is unmapped with the last of them."""
        self._open = False
        self._files = {}

    def _refuse_closed(self) -> None:
        if not self._open:
            raise CheckpointError(f"{self._folder}: the checkpoint is closed; open it again")


def _config(folder: Path) -> str:
    text = read_text(folder, CONFIG)
    if text is not None:
        return text
    ggufs = sorted(path.name for path in folder.glob("*.gguf"))
    hint = f"name its GGUF file instead: {folder / ggufs[0]}" if ggufs else "name the folder that holds the model"
    raise CheckpointError(f"{folder}: there is no {CONFIG}; {hint}")


def _name(folder: Path) -> str:
    """The hub id of a snapshot in the hub's cache, else the folder's name."""
    repository = folder.parent.parent.name
    if folder.parent.name == "snapshots" and repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/", 1)
    return folder.name


def _model_type(folder: Path, config: Mapping[str, Any]) -> str:
    value = config.get("model_type")
    if not isinstance(value, str) or not value:
        raise CheckpointError(f"{folder / CONFIG}: model_type is missing, so nothing says which architecture it is")
    return value


def _identity(config: str, files: Mapping[str, SafetensorsFile]) -> str:
    digest = hashlib.sha256(config.encode())
    for file in sorted({(file.path.name, file.identity) for file in files.values()}):
        digest.update(repr(file).encode())
    return digest.hexdigest()
