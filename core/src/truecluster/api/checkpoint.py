"""Where models come from: references that are located, and containers that are opened.

A model file is hostile input: bounded parsing, nothing read outside the model's folder, no code run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs

from .weights import Packed


@attrs.frozen
class TensorInfo:
    """A tensor of a container: shape as ``[out, in]``, the format its bytes lie in, and their number."""

    shape: tuple[int, ...]
    format: str
    nbytes: int


@attrs.frozen(kw_only=True)
class TokenizerData:
    """``json`` is the text of a ``tokenizer.json`` (``None`` where the model has none), the rest its known facts.

    ``folder`` is set where only transformers can build the tokenizer from the model's own files.
    """

    json: str | None
    bos: str | None = None
    eos: str | None = None
    add_bos: bool = False
    folder: str | None = None


class Checkpoint(ABC):
    """An opened model: metadata in memory, tensors mapped. Close it, or use it as a context manager."""

    container: str
    """Which dialects apply: ``huggingface`` or ``gguf``, or a container that a plugin brings."""
    model_type: str
    """The container's own word for the model family."""
    name: str
    """What to call the model in answers: a hub id, or the stem of a folder or file; never a path."""
    identity: str
    """Changes whenever any byte of the source might have; cheap to compute."""
    metadata: Mapping[str, Any]
    """``config.json`` where the container has one, else the container's own keys, without its vocabulary."""
    tensors: Mapping[str, TensorInfo]
    generation: Mapping[str, Any]
    """``generation_config.json`` or what of it the container has; ``eos_token_id`` is an id or a list."""
    chat_templates: Mapping[str, str]
    """Jinja templates by name; the usual one is ``default``. Empty for a base model."""

    @abstractmethod
    def read(self, name: str) -> Packed:
        """The tensor's own bytes, mapped, not copied. Raises `CheckpointError` naming the file and what is wrong."""

    @abstractmethod
    def tokenizer(self) -> TokenizerData:
        """The tokenizer; may be slow, so it is not read at open."""

    def close(self) -> None:  # noqa: B027 - not every container has something to let go of
        """Let go of the mapped files."""

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


Advance = Callable[[int], None]
"""Takes how many bytes of a task are done so far."""


@contextmanager
def _unseen(name: str, total: int) -> Iterator[Advance]:
    yield lambda done: None


@attrs.frozen
class OpenOptions:
    """How to open, and whom to tell.

    ``say`` takes a line for the user; ``task`` takes a name and a number of bytes to come, and shows the task as long
    as its block lasts. ``check`` raises where nobody waits any more: call it a few times a second while that lasts
    longer. ``cache_dir`` is where downloads are kept, instead of the source's own place. ``trust_remote_code`` allows
    to fetch code of the model's author, for the tokenizer; nothing else may come of it.
    """

    say: Callable[[str], None] = lambda line: None
    cache_dir: str | None = None
    task: Callable[[str, int], AbstractContextManager[Advance]] = _unseen
    check: Callable[[], None] = lambda: None
    trust_remote_code: bool = False


class CheckpointSource(ABC):
    """Opens the reference forms that its spec names."""

    @abstractmethod
    def open(self, reference: str, options: OpenOptions) -> Checkpoint | str:
        """An opened checkpoint, or another reference (a path) to go on with. Raises `CheckpointError`."""

    def folder(self, options: OpenOptions) -> str | None:
        """Where downloads are kept, which need not exist yet; ``None`` where the source fetches nothing."""
        return None

    def unreachable(self, patience: float) -> str | None:
        """Why nothing new can be fetched now, and the remedy, for the user; ``None`` where nothing keeps from it.

        Asks over the network for ``patience`` seconds at most. Doesn't raise where there is none.
        """
        return None
