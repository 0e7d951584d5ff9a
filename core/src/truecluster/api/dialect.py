"""How a container's tensors and keys become an architecture's slots and config: pure data.

A pattern holds at most one ``*``, which stands for a block number. ``slots`` maps a slot pattern without its
``.bias`` to the container's tensor pattern without its ``.weight`` or ``.bias``; the suffix is carried over.

The slot ``head.output`` is the output matrix by agreement: where a container has no tensor for it, config.json is
read with ``tie_word_embeddings`` true.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class RotaryRows:
    """Reorder rows from rotated pairs (2i, 2i+1) to rotated halves (i, i + dim/2), head by head.

    ``heads`` is the config.json key that holds the number of heads.
    """

    heads: str


@attrs.frozen
class SliceRows:
    """Take rows ``start:stop`` of a tensor that stacks several; the bounds are fractions of ``parts`` equal parts."""

    start: int
    stop: int
    parts: int


@attrs.frozen
class Transpose:
    """Swap the two axes of a matrix (containers that store ``[in, out]``)."""


@attrs.frozen
class AddConstant:
    """Add a number to every element (norms stored as weight - 1)."""

    value: float


Transform = RotaryRows | SliceRows | Transpose | AddConstant


@attrs.frozen(kw_only=True)
class Dialect:
    """The words of one container for one model type.

    ``container`` and ``model_type`` select it; ``keys`` maps container metadata keys to config.json keys (empty where
    the container speaks config.json already), where ``rope_scaling.factor`` means one inside an object. ``values``
    does the same for fp32 vectors that are configuration. ``defaults`` are config.json values that the container
    leaves out; ``implied`` are those that hold where a key or tensor is there, unless a key of its own says otherwise.

    A key of ``required`` must be there. A key of ``fixed`` changes the network in a way that isn't supported: it may
    only be absent or have one of the values given. ``ignored`` are patterns of tensors that hold nothing needed; any
    other tensor without a slot is refused.
    """

    container: str
    model_type: str
    slots: Mapping[str, str]
    transforms: Mapping[str, tuple[Transform, ...]] = attrs.field(factory=dict)
    keys: Mapping[str, str] = attrs.field(factory=dict)
    values: Mapping[str, str] = attrs.field(factory=dict)
    defaults: Mapping[str, object] = attrs.field(factory=dict)
    implied: Mapping[str, Mapping[str, object]] = attrs.field(factory=dict)
    required: tuple[str, ...] = ()
    fixed: Mapping[str, tuple[object, ...]] = attrs.field(factory=dict)
    ignored: tuple[str, ...] = ()
