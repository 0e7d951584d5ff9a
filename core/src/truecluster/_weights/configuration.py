"""A container's own words as a config.json, by a dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from truecluster.api import Architecture, Checkpoint, CheckpointError, Dialect, ModelConfig

OUTPUT = "head.output"
MAX_VALUES = 65536
"""Elements of a vector that is configuration."""


def read_config(dialect: Dialect, checkpoint: Checkpoint) -> dict[str, Any]:
    """The container's metadata as a config.json mapping. Raises `CheckpointError` naming a key that can't be used."""
    _check_keys(dialect, checkpoint)
    raw = dict(dialect.defaults) if dialect.keys else {**dialect.defaults, **_present(checkpoint.metadata)}
    for name, value in _found(dialect, checkpoint):
        _put(raw, name, value)
    if OUTPUT in dialect.slots and f"{dialect.slots[OUTPUT]}.weight" not in checkpoint.tensors:
        raw["tie_word_embeddings"] = True
    return raw


def parse_config(
    architecture: Architecture, raw: Mapping[str, Any], dialect: Dialect, checkpoint: Checkpoint
) -> ModelConfig:
    """What the architecture reads. Its errors also say what the container calls the fields that they name."""
    try:
        return architecture.config(raw)
    except CheckpointError as error:
        said = str(error)
        own = {name.split(".")[-1]: key for key, name in {**dialect.keys, **dialect.values}.items()}
        named = [f"{name} is {key!r}" for name, key in own.items() if re.search(rf"\b{name}\b", said)]
        there = f" ({', '.join(named)} there)" if named else ""
        raise CheckpointError(f"{checkpoint.name}: {said}{there}") from None


def _check_keys(dialect: Dialect, checkpoint: Checkpoint) -> None:
    metadata = checkpoint.metadata
    missing = [key for key in dialect.required if key not in metadata]
    if missing:
        raise CheckpointError(f"{checkpoint.name}: {', '.join(map(repr, missing))} is missing; the file can't be used")
    for key, values in dialect.fixed.items():
        if key in metadata and metadata[key] not in values:
            only = f"; only {' or '.join(map(repr, values))} is" if values else ""
            raise CheckpointError(f"{checkpoint.name}: {key!r} = {metadata[key]!r:.60} is not supported{only}")


def _found(dialect: Dialect, checkpoint: Checkpoint) -> list[tuple[str, Any]]:
    """Name in config.json and value, the later ones over the earlier ones."""
    there = {*checkpoint.metadata, *checkpoint.tensors}
    implied = [item for key, values in dialect.implied.items() if key in there for item in values.items()]
    vectors = [(name, _vector(checkpoint, key)) for key, name in dialect.values.items() if key in there]
    present = _present(checkpoint.metadata)
    return implied + vectors + [(name, present[key]) for key, name in dialect.keys.items() if key in present]


def _present(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value is not None}


def _put(raw: dict[str, Any], name: str, value: Any) -> None:
    outer, _, inner = name.rpartition(".")
    if outer:
        raw[outer] = {**raw.get(outer, {}), inner: value}
    else:
        raw[name] = value


def _vector(checkpoint: Checkpoint, name: str) -> list[float]:
    info = checkpoint.tensors[name]
    if info.format != "fp32" or len(info.shape) != 1 or info.shape[0] > MAX_VALUES:
        raise CheckpointError(
            f"{checkpoint.name}: tensor {name!r} is {list(info.shape)} in {info.format}; it must be a vector in fp32"
        )
    values: list[float] = checkpoint.read(name).data.clone().view(torch.float32).tolist()
    return values
