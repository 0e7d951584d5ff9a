"""Units: packed once a machine, remembered by what they are made of, and never served damaged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs
import pytest
import torch
from checkpoints import MemoryCheckpoint, Unreadable, named
from tiny_models import RAW, TinyDecoder

from truecluster import api
from truecluster._registry import Registry
from truecluster._weights.binding import bind
from truecluster._weights.catalog import Catalog
from truecluster._weights.store import Store
from truecluster.api import CheckpointError, Packed, Role, WeightFormat

TENSORS = named(TinyDecoder(), RAW)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.installed()


@attrs.define(eq=False)
class Counting(WeightFormat):
    """A format that counts how often it packs."""

    inner: WeightFormat
    packs: list[tuple[int, ...]] = attrs.field(factory=list)

    @classmethod
    def from_id(cls, id):
        raise NotImplementedError

    @property
    def id(self):
        return self.inner.id

    def wire_bytes(self, shape):
        return self.inner.wire_bytes(shape)

    def rows(self, packed, index):
        return self.inner.rows(packed, index)

    def take(self, packed, index):
        return self.inner.take(packed, index)

    def pack(self, weight, stats=None):
        self.packs.append(tuple(weight.shape))
        return self.inner.pack(weight, stats)


class CountingRegistry:
    """Formats of a registry, each counting."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.formats: dict[str, Counting] = {}

    def format(self, id: str) -> Counting:
        return self.formats.setdefault(id, Counting(self.registry.format(id)))

    @property
    def packs(self) -> int:
        return sum(len(format.packs) for format in self.formats.values())


def catalog(registry, root: Path, quant: str = "int8", kind=MemoryCheckpoint, tensors=TENSORS, **more) -> Catalog:
    model = bind(kind(RAW, tensors, **more), TinyDecoder(), "tiny")
    recipe = getattr(registry, "registry", registry).recipe(quant)
    return Catalog(model, recipe, registry, Store(root))


def slot(catalog: Catalog, key: str) -> api.Slot:
    return catalog.model.slots[key]


def test_a_unit_has_the_hash_and_size_of_its_bytes(registry, tmp_path):
    made = catalog(registry, tmp_path)
    unit = made.unit(slot(made, "block.1.gate"))
    packed = made.read(unit)
    assert unit.format == packed.format == "int8"
    assert unit.nbytes == packed.data.numel() == made.nbytes(unit.slot) == 48 * 32 + 4 * 48
    assert unit.digest == hashlib.sha256(packed.data.numpy().tobytes()).hexdigest()
    expected = registry.format("int8").pack(TENSORS["model.layers.1.mlp.gate_proj.weight"])
    assert torch.equal(packed.data, expected.data)


def test_the_recipe_gives_each_role_its_format(registry, tmp_path):
    made = catalog(registry, tmp_path, "int4")
    ids = {key: made.format(s).id for key, s in made.model.slots.items()}
    assert ids["block.0.q"] == "int4.g32.asym"
    assert ids["head.output"] == ids["embed.tokens"] == "int8"
    assert ids["block.0.mlp_norm"] == ids["head.norm"] == "fp32"


def test_kept_tensors_are_the_checkpoints_own_bytes(registry, tmp_path):
    half = {name: tensor.half() for name, tensor in TENSORS.items()}
    made = catalog(registry, tmp_path, "fp16", tensors=half)
    for key, name in (("head.norm", "model.norm.weight"), ("block.0.up", "model.layers.0.mlp.up_proj.weight")):
        packed = made.read(made.unit(slot(made, key)))
        assert packed.format == "fp16"
        assert torch.equal(packed.data, half[name].flatten().view(torch.uint8))


def test_every_slot_is_packed_once_and_shared_ones_are_one_unit(registry, tmp_path):
    counting = CountingRegistry(registry)
    made = catalog(counting, tmp_path)
    slots = list(made.model.slots.values())
    units = made.units([*slots, *slots])
    assert [unit.slot for unit in units] == slots
    matrices = [s for s in slots if len(s.shape) > 1]
    assert counting.packs == len(matrices)
    made.units(slots)
    assert counting.packs == len(matrices)


def test_another_process_packs_and_reads_nothing(registry, tmp_path):
    first = catalog(registry, tmp_path)
    units = first.units(first.model.slots.values())
    counting = CountingRegistry(registry)
    second = catalog(counting, tmp_path, kind=Unreadable)
    assert second.units(second.model.slots.values()) == units
    assert all(torch.equal(second.read(unit).data, first.read(unit).data) for unit in units)
    assert counting.packs == 0


@pytest.mark.parametrize("change", [{"quant": "fp16"}, {"identity": "second"}])
def test_another_format_or_source_is_packed_anew(registry, tmp_path, change):
    first = catalog(registry, tmp_path)
    first.units(first.model.slots.values())
    second = catalog(registry, tmp_path, **change)
    up = slot(second, "block.0.up")
    assert second.known(up) is None
    second.unit(up)
    assert second.model.checkpoint.reads == ["model.layers.0.mlp.up_proj.weight"]


def test_another_transform_is_packed_anew(registry, tmp_path):
    first = catalog(registry, tmp_path)
    q = slot(first, "block.0.q")
    first.unit(q)
    second = catalog(registry, tmp_path)
    turned = attrs.evolve(second.model.sources["block.0.q"], transforms=(api.RotaryRows("num_attention_heads"),))
    second.model.sources["block.0.q"] = turned
    assert second.known(q) is None
    assert second.unit(q).digest != first.unit(q).digest


def test_two_recipes_share_what_they_make_alike(registry, tmp_path):
    first = catalog(registry, tmp_path, "int4")
    head = slot(first, "head.output")
    assert catalog(registry, tmp_path, "int8").known(head) is None
    unit = first.unit(head)
    assert catalog(registry, tmp_path, "int8", kind=Unreadable).unit(head) == unit


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_what_the_store_lost_is_packed_again(registry, tmp_path, how):
    made = catalog(registry, tmp_path)
    unit = made.unit(slot(made, "block.0.up"))
    before = made.read(unit).data.clone()
    place = tmp_path / "objects" / unit.digest[:2] / unit.digest
    if how == "gone":
        place.unlink()
    else:
        place.write_bytes(bytes(unit.nbytes))
    assert torch.equal(made.read(unit).data, before)
    assert place.exists()


def test_a_source_that_changed_under_way_is_told(registry, tmp_path):
    made = catalog(registry, tmp_path)
    unit = made.unit(slot(made, "block.0.up"))
    (tmp_path / "objects" / unit.digest[:2] / unit.digest).unlink()
    name = "model.layers.0.mlp.up_proj.weight"
    made.model.checkpoint.held[name] = MemoryCheckpoint(RAW, {name: TENSORS[name] + 1}).held[name]
    with pytest.raises(CheckpointError, match="a-model: the model's files changed while it was in use"):
        made.read(unit)


def test_weights_that_overflow_are_named(registry, tmp_path):
    """bf16 1e5 is infinite in fp16 (LOAD-06)."""
    name = "model.layers.2.mlp.down_proj.weight"
    loud = {key: tensor.bfloat16() for key, tensor in TENSORS.items()}
    loud[name][0, 0] = 1e5
    made = catalog(registry, tmp_path, "fp16", tensors=loud)
    made.unit(slot(made, "block.1.down"))
    with pytest.raises(CheckpointError, match=rf"^{name}: "):
        made.unit(slot(made, "block.2.down"))
    as_is = catalog(registry, tmp_path, "bf16", tensors=loud)
    kept = as_is.read(as_is.unit(slot(as_is, "block.2.down")))
    assert torch.equal(kept.data, loud[name].flatten().view(torch.uint8))


def test_bytes_that_lie_unaligned_are_packed_alike(registry, tmp_path):
    """A checkpoint may hand over a view into its file at any byte."""
    tensor = TENSORS["model.layers.0.mlp.up_proj.weight"]
    shifted = torch.cat([torch.zeros(1, dtype=torch.uint8), tensor.flatten().view(torch.uint8)])[1:]
    tensors = {**TENSORS, "model.layers.0.mlp.up_proj.weight": Packed("fp32", tuple(tensor.shape), shifted)}
    made, plain = catalog(registry, tmp_path / "a", tensors=tensors), catalog(registry, tmp_path / "b")
    up = slot(made, "block.0.up")
    assert made.unit(up) == plain.unit(up)


def test_roles_cover_every_slot(registry, tmp_path):
    made = catalog(registry, tmp_path)
    assert {s.role for s in made.model.slots.values()} == {Role.LINEAR, Role.HEAD, Role.EMBEDDING, Role.NORM}
