"""A model's units under one recipe: which format each slot has, its bytes, its hash, and the packed bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import attrs
import torch

from truecluster._registry import Registry
from truecluster.api import CheckpointError, Packed, PluginError, QuantizerSpec, Slot, WeightFormat

from .binding import BoundModel
from .store import Store
from .transforms import apply

KEEP = "keep"
PLAIN = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
"""Formats whose bytes a quantizer can read as they are, without an fp32 copy of the whole tensor."""


@attrs.frozen(kw_only=True)
class Unit:
    """One slot's tensor in one format: what is hashed, stored and sent."""

    slot: Slot
    format: str
    digest: str
    nbytes: int


class Catalog:
    """Packs what isn't known yet, once, into the store; remembers across processes what was packed."""

    def __init__(self, model: BoundModel, recipe: QuantizerSpec, registry: Registry, store: Store) -> None:
        self.model = model
        self.store = store
        self.packed_bytes = 0
        """How much was packed here."""
        self._recipe = recipe
        self._registry = registry
        self._source = hashlib.sha256(model.checkpoint.identity.encode()).hexdigest()
        self._known = store.known(self._source)

    def format(self, slot: Slot) -> WeightFormat:
        """The format that the recipe gives the slot. Raises `PluginError` where no plugin has it.

        Raises `CheckpointError` for a tensor that no plugin can read.
        """
        wanted = self._recipe.roles.get(slot.role.value, KEEP)
        own = self._own_format(slot)
        return own if wanted == KEEP else self._registry.format(wanted)

    def _own_format(self, slot: Slot) -> WeightFormat:
        checkpoint, tensor = self.model.checkpoint, self.model.sources[slot.key].tensor
        try:
            return self._registry.format(checkpoint.tensors[tensor].format)
        except PluginError as error:
            raise CheckpointError(f"{checkpoint.name}: tensor {tensor!r} can't be read: {error}") from error

    def nbytes(self, slot: Slot) -> int:
        """Packed bytes, without packing."""
        return self.format(slot).wire_bytes(slot.shape)

    def known(self, slot: Slot) -> tuple[str, int] | None:
        """Content hash and bytes of a slot that was packed before, here or in an earlier process."""
        return self._known.get(self._recipe_key(slot))

    def unit(self, slot: Slot) -> Unit:
        """The unit with its hash, held in the store from now on; packs the slot if it never was."""
        digest, nbytes = self.known(slot) or self._pack_and_remember(slot)
        self.store.hold([digest])
        return Unit(slot=slot, format=self.format(slot).id, digest=digest, nbytes=nbytes)

    def units(self, slots: Iterable[Slot]) -> list[Unit]:
        """The units of ``slots``, each once."""
        wanted = dict.fromkeys(slots)
        self.store.hold(known[0] for slot in wanted if (known := self.known(slot)))
        return [self.unit(slot) for slot in wanted]

    def read(self, unit: Unit) -> Packed:
        """Packed bytes from the store, packed again if they are gone or damaged."""
        data = self.store.read(unit.digest)
        if data is None:
            self.store.make_room(unit.nbytes)
            self._pack_and_remember(unit.slot)
            data = self.store.read(unit.digest)
        if data is None:
            raise CheckpointError(f"{self.model.checkpoint.name}: the model's files changed while it was in use")
        return Packed(unit.format, unit.slot.shape, data)

    def _pack_and_remember(self, slot: Slot) -> tuple[str, int]:
        with _one_thread():
            packed = self._pack(slot)
        entry = (self.store.write(packed.data), packed.data.numel())
        self._known[self._recipe_key(slot)] = entry
        self.packed_bytes += entry[1]
        self.store.remember(self._source, {self._recipe_key(slot): entry})
        return entry

    def _pack(self, slot: Slot) -> Packed:
        source = self.model.sources[slot.key]
        packed = self.model.checkpoint.read(source.tensor)
        for transform in source.transforms:
            packed = apply(transform, packed, self._registry.format(packed.format), self.model.raw)
        target = self.format(slot)
        if packed.format == target.id:
            return packed
        try:
            return target.pack(self._values(packed))
        except CheckpointError as error:
            raise CheckpointError(f"{source.tensor}: {error}") from error

    def _values(self, packed: Packed) -> torch.Tensor:
        if packed.format in PLAIN:
            dtype = PLAIN[packed.format]
            aligned = packed.data.storage_offset() % dtype.itemsize == 0
            return (packed.data if aligned else packed.data.clone()).view(dtype).view(packed.shape)
        return self._registry.format(packed.format).unpack(packed)

    def _recipe_key(self, slot: Slot) -> str:
        source = self.model.sources[slot.key]
        facts = (source.tensor, source.transforms, self.format(slot).id, None)
        return hashlib.sha256(repr(facts).encode()).hexdigest()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Packing is many small operations, between which threads on busy cores wait for each other, up to 100 times."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
