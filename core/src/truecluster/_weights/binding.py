"""An architecture's slots, bound to a checkpoint's tensors by a dialect. Checked whole before any weight is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from truecluster.api import (
    Architecture,
    Block,
    Checkpoint,
    CheckpointError,
    Dialect,
    Embed,
    Head,
    ModelConfig,
    Part,
    RotaryRows,
    Slot,
    Transform,
)

from .configuration import OUTPUT, parse_config, read_config
from .transforms import source_shape


@attrs.frozen
class Source:
    """The container's tensor that a slot is made from, and how."""

    tensor: str
    transforms: tuple[Transform, ...] = ()


@attrs.frozen(kw_only=True, eq=False)
class BoundModel:
    """A checkpoint with the architecture that runs it: ``raw`` is the config.json that both ends parse."""

    checkpoint: Checkpoint
    architecture: Architecture
    architecture_name: str
    raw: Mapping[str, Any]
    config: ModelConfig
    slots: Mapping[str, Slot]
    sources: Mapping[str, Source]


def parts_of(config: ModelConfig) -> tuple[Part, ...]:
    """Embed, every block, head."""
    return (Embed(), *(Block(i) for i in range(config.layers)), Head())


def bind(checkpoint: Checkpoint, architecture: Architecture, name: str) -> BoundModel:
    """Raises `CheckpointError` naming every tensor that is missing, misshapen or not known."""
    dialect = find_dialect(architecture, name, checkpoint)
    raw = read_config(dialect, checkpoint)
    config = parse_config(architecture, raw, dialect, checkpoint)
    slots = {slot.key: slot for part in parts_of(config) for slot in architecture.slots(config, part)}
    sources = {key: find_source(dialect, key) for key in slots}
    check_heads(raw, sources)
    check_tensors(checkpoint, dialect, config, raw, slots, sources)
    return BoundModel(
        checkpoint=checkpoint,
        architecture=architecture,
        architecture_name=name,
        raw=raw,
        config=config,
        slots=slots,
        sources=sources,
    )


def find_dialect(architecture: Architecture, name: str, checkpoint: Checkpoint) -> Dialect:
    """The architecture's dialect for the checkpoint's container and model type."""
    for dialect in architecture.dialects:
        if (dialect.container, dialect.model_type) == (checkpoint.container, checkpoint.model_type):
            return dialect
    known = ", ".join(f"{d.container}/{d.model_type}" for d in architecture.dialects)
    raise CheckpointError(
        f"architecture {name!r} has no dialect for {checkpoint.model_type!r} in a {checkpoint.container} container; "
        f"it has {known}"
    )


def find_source(dialect: Dialect, key: str) -> Source:
    """``block.3.q.bias`` → pattern ``block.*.q`` → ``model.layers.3.self_attn.q_proj.bias``."""
    stem, suffix = (key.removesuffix(".bias"), "bias") if key.endswith(".bias") else (key, "weight")
    number = next(iter(re.findall(r"\.(\d+)\.", stem)), "")
    pattern = stem.replace(f".{number}.", ".*.") if number else stem
    if pattern not in dialect.slots:
        raise CheckpointError(f"dialect {dialect.container}/{dialect.model_type} has no tensor for slot {pattern!r}")
    name = dialect.slots[pattern].replace("*", number)
    return Source(f"{name}.{suffix}", tuple(dialect.transforms.get(pattern, ())))


def check_heads(raw: Mapping[str, Any], sources: Mapping[str, Source]) -> None:
    """Every transform knows how many heads there are."""
    for source in sources.values():
        for transform in source.transforms:
            if isinstance(transform, RotaryRows) and transform.heads not in raw:
                raise CheckpointError(f"config: {transform.heads} is missing; the rows of {source.tensor} need it")


def check_tensors(
    checkpoint: Checkpoint,
    dialect: Dialect,
    config: ModelConfig,
    raw: Mapping[str, Any],
    slots: Mapping[str, Slot],
    sources: Mapping[str, Source],
) -> None:
    """Every slot has a tensor of its shape, and every tensor a slot."""
    names = {source.tensor for source in sources.values()}
    missing = sorted(names - set(checkpoint.tensors))
    tied = (f"{dialect.slots[OUTPUT]}.weight",) if config.tied and OUTPUT in dialect.slots else ()
    needless = ignored(checkpoint, (*dialect.ignored, *dialect.values, *tied))
    unknown = sorted(set(checkpoint.tensors) - names - set(needless))
    faults = [f"missing: {_some(missing)}"] * bool(missing) + [f"not known: {_some(unknown)}"] * bool(unknown)
    faults += misshapen(checkpoint, raw, slots, sources)
    if faults:
        raise CheckpointError(
            f"{checkpoint.name}: the tensors don't fit {checkpoint.model_type!r}: {'; '.join(faults)}"
        )


def ignored(checkpoint: Checkpoint, patterns: Iterable[str]) -> list[str]:
    """The tensors that hold nothing needed."""
    matchers = [re.compile(re.escape(p).replace(r"\*", r"\d+")) for p in patterns]
    return [name for name in checkpoint.tensors if any(m.fullmatch(name) for m in matchers)]


def misshapen(
    checkpoint: Checkpoint, raw: Mapping[str, Any], slots: Mapping[str, Slot], sources: Mapping[str, Source]
) -> list[str]:
    """One line per tensor whose shape isn't what its slot needs."""
    faults = []
    for key, source in sources.items():
        info = checkpoint.tensors.get(source.tensor)
        wanted = source_shape(slots[key].shape, source.transforms)
        if info is not None and info.shape != wanted:
            faults.append(f"{source.tensor} is {list(info.shape)}, the config needs {list(wanted)}")
    return faults


def _some(names: list[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
