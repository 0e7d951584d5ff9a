"""A model as core sees it: parts, slots, spans, and the descriptions an architecture composes.

Knows no tensor library and no model family.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar

import attrs

from .dialect import Dialect
from .dtypes import DType


@attrs.frozen
class Embed:
    """The token embedding."""

    def __str__(self) -> str:
        return "embed"


@attrs.frozen
class Block:
    """Transformer block ``index``, counted over the whole model from 0."""

    index: int

    def __str__(self) -> str:
        return f"block.{self.index}"


@attrs.frozen
class Head:
    """The final norm and the output matrix."""

    def __str__(self) -> str:
        return "head"


Part = Embed | Block | Head


@attrs.frozen
class Span:
    """A contiguous run of parts: ``[embed] + blocks[start:stop] + [head]``."""

    start: int
    stop: int
    embed: bool = False
    head: bool = False

    def parts(self) -> tuple[Part, ...]:
        """The parts in the order in which a token passes them."""
        blocks: tuple[Part, ...] = tuple(Block(i) for i in range(self.start, self.stop))
        return (Embed(),) * self.embed + blocks + (Head(),) * self.head

    def __str__(self) -> str:
        blocks = f"blocks {self.start}-{self.stop - 1}" if self.stop > self.start else ""
        return " + ".join(filter(None, ["embed" * self.embed, blocks, "head" * self.head]))


class Role(str, Enum):
    """What a slot is for; a quantizer chooses a format per role."""

    LINEAR = "linear"
    HEAD = "head"
    EMBEDDING = "embedding"
    NORM = "norm"
    BIAS = "bias"


@attrs.frozen(cache_hash=True)
class Slot:
    """A named parameter that an architecture needs.

    ``key`` is unique in the model (``block.3.q``, ``block.3.q.bias``, ``head.output``); matrices are ``[out, in]``.
    Two descriptions that share a parameter (tied embeddings) name the same slot.
    """

    key: str
    role: Role
    shape: tuple[int, ...]


@attrs.frozen(cache_hash=True)
class Rotary:
    """Rotary position embedding over the first ``dim`` elements of each head, halves rotated (not pairs).

    ``scaling`` names the frequency rule: ``default``, ``linear``, ``llama3``, ``yarn``, or ``factors``, which divides
    each frequency by a number of its own; ``parameters`` are its numbers, by the names that ``rope_parameters`` uses
    in a config.json.
    """

    dim: int
    theta: float
    scaling: str = "default"
    parameters: tuple[tuple[str, float | tuple[float, ...]], ...] = ()


@attrs.frozen
class Paged:
    """State that grows by one entry per token: array name → shape per token, in the compute dtype.

    ``sliding`` is the number of latest tokens that attention sees, ``None`` for all.
    """

    arrays: Mapping[str, tuple[int, ...]]
    sliding: int | None = None


@attrs.frozen
class Recurrent:
    """State of fixed size per sequence: array name → shape, fp32.

    It can't be truncated except to one of its latest ``snapshots`` positions, which are kept per sequence.
    """

    arrays: Mapping[str, tuple[int, ...]]
    snapshots: int = 0


State = Paged | Recurrent


@attrs.frozen(kw_only=True)
class ModelConfig:
    """What core needs to know of a model; an architecture subclasses it for what only it needs.

    ``context`` is in tokens; ``dtype`` is the checkpoint's own; ``eos`` are the ids named by the config.
    """

    hidden: int
    layers: int
    vocab: int
    context: int
    tied: bool
    dtype: DType
    eos: tuple[int, ...] = ()


class Description:
    """A node of a network: a frozen attrs class that says what to compute, and holds no tensor.

    Fields that are descriptions (or tuples of them) are its children, and ``forward`` calls them; fields that are
    slots are the parameters it reads itself. Lowering replaces descriptions by callables of the same signature.
    """

    def forward(self, *args: Any) -> Any:
        """Compute from the children. A leaf has none and is always replaced by a kernel."""
        raise NotImplementedError(f"{type(self).__name__} is a leaf: lower the network before calling it")

    def __call__(self, *args: Any) -> Any:
        return self.forward(*args)

    def children(self) -> dict[str, Description | tuple[Description, ...]]:
        """Field name → child, or tuple of children."""
        found = {f.name: getattr(self, f.name) for f in attrs.fields(type(self))}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if _is_child(value)}

    def slots(self) -> tuple[Slot, ...]:
        """Every slot that this node and the nodes below it read, each once, in the order of the fields."""
        return tuple(dict.fromkeys(_slots(self)))


def _is_child(value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(item, Description) for item in value)
    return isinstance(value, Description)


def _slots(value: object) -> Iterator[Slot]:
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _slots(item)
    elif isinstance(value, Description):
        for field in attrs.fields(type(value)):  # type: ignore[arg-type]
            yield from _slots(getattr(value, field.name))


class Architecture(ABC):
    """The network of one model family, as single-device code cut into parts. It holds no tensor.

    Layer numbers are global, never counted within a span.
    """

    dialects: ClassVar[tuple[Dialect, ...]] = ()

    @abstractmethod
    def config(self, raw: Mapping[str, Any]) -> ModelConfig:
        """Read a ``config.json`` mapping; the only parser of it.

        Raises `CheckpointError` naming the field that is missing or not supported.
        """

    @abstractmethod
    def build(self, config: Any, part: Part) -> Description:
        """The network of one part.

        Called as ``embed(ids) → hidden``, ``block(hidden, batch, state) → hidden``, ``head(hidden) → logits``, with
        ids ``[n]`` int32, hidden ``[n, hidden]`` in the residual dtype, logits ``[n, vocab]`` fp32.
        """

    @abstractmethod
    def rotary(self, config: Any, layer: int) -> Rotary | None:
        """The rotary embedding of a layer; layers with equal ones share its tables."""

    @abstractmethod
    def state(self, config: Any, layer: int) -> State:
        """The sequence state of a layer."""

    def slots(self, config: Any, part: Part) -> tuple[Slot, ...]:
        """The slots that a part reads."""
        return self.build(config, part).slots()
