"""Which kernel takes which description, and that a kernel may do what it likes inside."""

from __future__ import annotations

import attrs
import pytest
import torch
from tiny_models import FP32

from truecluster.api import Description, Kernel, PluginError, Role, Slot, Target
from truecluster.nn import GatedMLP, Linear, Linears, Lowering, Norm, RankedKernel
from truecluster.testing._host import HostDevice

A, B = (Linear(Slot(name, Role.LINEAR, (3, 2)), Slot(f"{name}.bias", Role.BIAS, (3,))) for name in "ab")


class Takes(Kernel):
    """Takes the descriptions of some types, and answers with its mark."""

    def __init__(self, *types: type, mark: str = "taken") -> None:
        self.types, self.mark = types, mark
        self.prepared: list[str] = []

    def accepts(self, description, target):
        return type(description) in self.types

    def prepare(self, slot, packed, target):
        self.prepared.append(slot.key)
        return slot.key

    def bind(self, description, handles, target):
        return lambda *inputs: (self.mark, sorted(handles))

    def resident_bytes(self, format, shape):
        return 0


def lowering(*kernels: RankedKernel) -> Lowering:
    return Lowering(Target(formats={}, device=HostDevice(), dtypes=FP32), kernels)


def handles(of: Lowering, description: Description) -> dict:
    readers = of.readers(description)
    return {(k.name, slot.key): k.kernel.prepare(slot, None, of.target) for slot, ks in readers.items() for k in ks}


def bound(of: Lowering, description: Description):
    return of.bind(description, handles(of, description))


MLP = GatedMLP(gate_up=Linears((A, B)), down=Linear(Slot("down", Role.LINEAR, (2, 3))))


def test_a_whole_is_taken_before_its_children():
    whole, leaf = Takes(GatedMLP, mark="whole"), Takes(Linear, mark="leaf")
    of = lowering(RankedKernel("leaf", 9, leaf), RankedKernel("whole", 1, whole))
    assert bound(of, MLP)(None) == ("whole", ["a", "a.bias", "b", "b.bias", "down"])
    assert leaf.prepared == []


def test_linears_fall_through_to_linear_where_no_kernel_takes_them_together():
    of = lowering(RankedKernel("leaf", 1, Takes(Linear)))
    lowered = bound(of, Linears((A, B)))
    assert lowered(None) == (("taken", ["a", "a.bias"]), ("taken", ["b", "b.bias"]))


def test_a_lowered_network_is_the_same_tree_with_callables_in_it():
    of = lowering(RankedKernel("pair", 1, Takes(Linears, mark="pair")), RankedKernel("leaf", 1, Takes(Linear)))
    lowered = bound(of, MLP)
    assert type(lowered) is GatedMLP
    assert lowered.activation == MLP.activation
    assert lowered.gate_up(None) == ("pair", ["a", "a.bias", "b", "b.bias"])
    assert lowered.down(None) == ("taken", ["down"])
    assert isinstance(MLP.gate_up, Linears)


def test_of_two_that_accept_the_higher_rank_wins():
    of = lowering(
        RankedKernel("low", 1, Takes(Linear, mark="low")), RankedKernel("high", 2, Takes(Linear, mark="high"))
    )
    assert of.choose(A).name == "high"
    assert bound(of, A)(None)[0] == "high"


def test_equal_ranks_are_a_conflict_that_names_both():
    of = lowering(RankedKernel("one", 3, Takes(Linear)), RankedKernel("two", 3, Takes(Linear)))
    with pytest.raises(PluginError, match=r"kernels 'one' and 'two' both take Linear at rank 3; uninstall one"):
        of.readers(MLP)


def test_equal_ranks_that_do_not_meet_are_none():
    of = lowering(RankedKernel("one", 3, Takes(Linear)), RankedKernel("two", 3, Takes(Norm)))
    assert of.choose(A).name == "one"


def test_every_reader_of_a_slot_is_named_once():
    shared = Slot("shared", Role.HEAD, (4, 4))

    @attrs.frozen
    class Both(Description):
        first: Linear
        second: Norm
        third: Linear

    both = Both(Linear(shared), Norm(shared, 1e-6), Linear(shared))
    of = lowering(RankedKernel("linear", 1, Takes(Linear)), RankedKernel("norm", 1, Takes(Norm)))
    assert {slot.key: [k.name for k in kernels] for slot, kernels in of.readers(both).items()} == {
        "shared": ["linear", "norm"]
    }


@attrs.frozen
class Leaf(Description):
    weight: Slot


@attrs.frozen
class Mixed(Description):
    """Reads a slot itself, beside a child."""

    weight: Slot
    inner: Linear


def test_a_leaf_that_nobody_knows_is_named():
    with pytest.raises(PluginError, match="no kernel takes Leaf, a leaf"):
        lowering().readers(Leaf(Slot("w", Role.LINEAR, (2, 2))))


def test_a_description_that_reads_a_slot_itself_needs_a_kernel():
    mixed = Mixed(Slot("w", Role.LINEAR, (2, 2)), A)
    with pytest.raises(PluginError, match="no kernel takes Mixed, which reads 'w' itself"):
        lowering().readers(mixed)
    of = lowering(RankedKernel("mixed", 1, Takes(Mixed)))
    assert bound(of, mixed)(None) == ("taken", ["a", "a.bias", "w"])


def test_a_leaf_called_before_lowering_says_so():
    with pytest.raises(NotImplementedError, match="lower the network before calling it"):
        A(torch.zeros(1, 2))
