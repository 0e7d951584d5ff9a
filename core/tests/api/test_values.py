"""The value types of authors, by hand: what a span covers, what a network reads, what a split needs."""

from __future__ import annotations

import attrs
import pytest

from truecluster.api import (
    Architecture,
    Block,
    Description,
    DType,
    Dtypes,
    Embed,
    Head,
    ModelProfile,
    NodeProfile,
    Paged,
    PartProfile,
    RequestError,
    Role,
    Slot,
    Span,
)

ONE, TWO, THREE = (Slot(name, Role.LINEAR, (2, 3)) for name in ("one", "two", "three"))


@attrs.frozen
class Leaf(Description):
    weight: Slot
    bias: Slot | None = None


@attrs.frozen
class Pair(Description):
    """Adds what both of its children make of a number."""

    left: Description
    right: Description
    gain: Slot
    eps: float = 1e-5

    def forward(self, x: int) -> int:
        return self.left(x) + self.right(x)


@attrs.frozen
class Row(Description):
    items: tuple[Description, ...]
    nothing: tuple[Description, ...] = ()

    def forward(self, x: int) -> int:
        for item in self.items:
            x = item(x)
        return x


@attrs.frozen
class Plus(Description):
    number: int

    def forward(self, x: int) -> int:
        return x + self.number


@pytest.mark.parametrize(
    ("span", "parts", "text"),
    [
        (Span(0, 0, embed=True), (Embed(),), "embed"),
        (Span(3, 5), (Block(3), Block(4)), "blocks 3-4"),
        (Span(7, 8, head=True), (Block(7), Head()), "blocks 7-7 + head"),
        (Span(0, 1, True, True), (Embed(), Block(0), Head()), "embed + blocks 0-0 + head"),
    ],
)
def test_a_span_is_a_run_of_parts(span, parts, text):
    assert (span.parts(), str(span)) == (parts, text)


def test_parts_are_named_as_in_slots():
    assert [str(part) for part in (Embed(), Block(12), Head())] == ["embed", "block.12", "head"]


def test_children_are_the_fields_that_are_descriptions_or_tuples_of_them():
    left, right = Leaf(ONE), Leaf(TWO, THREE)
    assert Pair(left, right, THREE).children() == {"left": left, "right": right}
    assert Row((left, right)).children() == {"items": (left, right)}
    assert left.children() == {}


def test_slots_come_once_each_in_the_order_of_the_fields():
    network = Row((Pair(Leaf(TWO), Leaf(ONE, TWO), THREE), Leaf(ONE)))
    assert network.slots() == (TWO, ONE, THREE)


def test_a_description_composes_its_children_and_a_leaf_must_be_lowered():
    assert Row((Pair(Plus(1), Plus(2), ONE), Plus(10)))(5) == 6 + 7 + 10
    with pytest.raises(NotImplementedError, match="Leaf is a leaf: lower the network before calling it"):
        Leaf(ONE)(1)


def test_a_part_of_an_architecture_has_the_slots_of_its_network():
    class Tiny(Architecture):
        def config(self, raw):
            return None

        def build(self, config, part):
            return Leaf(ONE, TWO) if part == Block(1) else Leaf(THREE)

        def rotary(self, config, layer):
            return None

        def state(self, config, layer):
            return Paged({})

    assert Tiny().slots(None, Block(1)) == (ONE, TWO)


def test_sizes_and_widths_of_elements():
    assert [dtype.itemsize for dtype in DType] == [4, 2, 2, 4, 1]
    assert [dtype for dtype in DType if dtype.is_float] == [DType.FP32, DType.FP16, DType.BF16]
    assert DType.FP16.wider(DType.FP16) is DType.FP16
    assert DType.FP16.wider(DType.BF16) is DType.BF16.wider(DType.FP16) is DType.FP32


@pytest.mark.parametrize(
    ("compute", "residual"), [(DType.FP32, DType.FP16), (DType.FP16, DType.BF16), (DType.INT32, DType.FP32)]
)
def test_a_residual_holds_every_value_of_what_is_computed(compute, residual):
    assert Dtypes(DType.BF16, DType.FP32).residual is DType.FP32
    with pytest.raises(ValueError, match=f"{residual.value} can't be the residual of a computation in {compute.value}"):
        Dtypes(compute, residual)


def model(*, tied: bool) -> ModelProfile:
    """Embed 100, three blocks of 10 + 1, 20 + 2 and 30 + 3 (the latter state), head 200; 5 a stage, 7 to attend."""
    blocks = [PartProfile(part=Block(i), wire=0, resident=10 * (i + 1), state=i + 1) for i in range(3)]
    ends = [PartProfile(part=part, wire=0, resident=size) for part, size in ((Embed(), 100), (Head(), 200))]
    return ModelProfile(name="toy", parts=(ends[0], *blocks, ends[1]), tied=tied, workspace=5, attention=7)


@pytest.mark.parametrize(
    ("span", "needed"),
    [
        (Span(0, 3), 66 + 12),
        (Span(1, 2), 22 + 12),
        (Span(0, 0, embed=True), 100 + 5),
        (Span(3, 3, head=True), 200 + 5),
        (Span(0, 2, embed=True), 100 + 33 + 12),
        (Span(0, 3, True, True), 300 + 66 + 12),
    ],
)
def test_what_a_span_needs(span, needed):
    assert model(tied=False).needed(span) == needed
    assert [block.needed for block in model(tied=False).blocks] == [11, 22, 33]


def test_a_shared_matrix_is_held_once_where_both_ends_lie_together():
    assert model(tied=True).needed(Span(0, 3, True, True)) == 200 + 66 + 12
    assert model(tied=True).ends(embed=True, head=False) == 100
    assert model(tied=True).ends(embed=True, head=True) == 200


@pytest.mark.parametrize("speed", [0, -1.0])
def test_a_speed_is_positive_or_unknown(speed):
    assert NodeProfile(id="a", device="cpu").speed is None
    with pytest.raises(ValueError, match="speed"):
        NodeProfile(id="a", device="cpu", speed=speed)


def test_a_refused_request_names_its_field_and_its_code():
    error = RequestError("too long", "prompt", "context_length_exceeded")
    assert (str(error), error.param, error.code) == ("too long", "prompt", "context_length_exceeded")
