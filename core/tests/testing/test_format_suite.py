"""Formats that are wrong in one way each, for the suite of formats."""

from __future__ import annotations

import itertools
import struct

import pytest
import torch
from doubles import Double

from truecluster.api import CannotPack, CheckpointError, FormatSpec, Packed, PluginError, WeightFormat
from truecluster.testing._contract import Installed
from truecluster.testing.format import FormatContract


class Half(WeightFormat):
    """A right one: fp16 elements."""

    id = "half"

    @classmethod
    def from_id(cls, id):
        if id != "half":
            raise PluginError("the only member is half")
        return cls()

    def wire_bytes(self, shape):
        return 2 * torch.Size(shape).numel()

    def rows(self, packed, index):
        values = self.elements(self.checked(packed)).view(packed.shape)
        return values if len(packed.shape) == 1 else values[index]

    def elements(self, data):
        return data.clone().view(torch.float16).float()

    def take(self, packed, index):
        rows = self.checked(packed).view(packed.shape[0], -1) if packed.shape[0] else packed.data.view(0, 1)
        return Packed(self.id, (len(index), *packed.shape[1:]), rows[index].flatten())

    def pack(self, weight, stats=None):
        self.refuse(weight)
        return Packed(self.id, tuple(weight.shape), weight.half().flatten().view(torch.uint8))

    def refuse(self, weight):
        if not (weight.isfinite() & (weight.abs() < 65520)).all():
            raise CheckpointError("fp16 ends at 65504")


class HalfOfPairs(Half):
    """A right one: matrices of even width."""

    def wire_bytes(self, shape):
        if len(shape) == 1 or shape[1] % 2:
            raise PluginError(f"only matrices of even width are held, not {shape}")
        return super().wire_bytes(shape)

    def pack(self, weight, stats=None):
        self.wire_bytes(tuple(weight.shape))
        return super().pack(weight)


class ReadOnly(HalfOfPairs):
    """A right one that never packs."""

    def pack(self, weight, stats=None):
        raise CannotPack("read only")


class Renamed(Half):
    """Its other name leads to the first one."""

    def __init__(self, id):
        self.id = id

    @classmethod
    def from_id(cls, id):
        if id not in ("half", "half.le"):
            raise PluginError("members are half and half.le")
        return cls("half.le" if id == "half" else "half")


class Spelling(Half):
    """Reads the number of its member, however it is spelt."""

    id = "half.b16"

    @classmethod
    def from_id(cls, id):
        if id.count(".") != 1 or id[:6] != "half.b" or not id[6:].isdecimal() or int(id[6:]) != 16:
            raise PluginError(f"there is no {id}; members are half.b16")
        return cls()


class Parsing(Half):
    """Lets Python's error out where there is no number."""

    id = "half.b16"

    @classmethod
    def from_id(cls, id):
        if id != "half.b16" and int(id.removeprefix("half.b").partition(".")[0]):
            raise PluginError(f"there is no {id}; members are half.b16")
        return cls()


class Single(Half):
    """A right one: fp32 elements."""

    def wire_bytes(self, shape):
        return 4 * torch.Size(shape).numel()

    def elements(self, data):
        return data.clone().view(torch.float32)

    def pack(self, weight, stats=None):
        if not weight.isfinite().all():
            raise CheckpointError("a weight is no number")
        return Packed(self.id, tuple(weight.shape), weight.float().contiguous().flatten().view(torch.uint8))


class Stepping(Single):
    """Takes what is smaller than it thinks weights are for zero."""

    def pack(self, weight, stats=None):
        return super().pack(torch.where(weight.abs() < 1e-30, 0.0, weight))


class Flat(Half):
    """Counts the bytes of a matrix, whatever the shape."""

    def wire_bytes(self, shape):
        return super().wire_bytes(shape[:2])


class Agreeable(Half):
    """Has every member."""

    @classmethod
    def from_id(cls, id):
        return cls()


class OneRowAtLeast(Half):
    """Promises a row where there is none."""

    def wire_bytes(self, shape):
        return super().wire_bytes((max(1, shape[0]), *shape[1:]))

    def checked(self, packed):
        return Half().checked(packed)


class Narrow(Half):
    """Counts in 32 bits."""

    def wire_bytes(self, shape):
        return super().wire_bytes(shape) & 0x7FFFFFFF


class Saturating(Half):
    """Cuts outliers off."""

    def pack(self, weight, stats=None):
        self.refuse(weight)
        return super().pack(weight.clamp(-1000, 1000))


class Glancing(Half):
    """Looks for values that are no numbers in the first row."""

    def refuse(self, weight):
        super().refuse(weight[:1])
        super().refuse(weight.nan_to_num(0, float("inf"), float("-inf")))


class BigEndian(Half):
    """Packing and reading agree with each other, and not with what is written down."""

    def elements(self, data):
        return super().elements(data.view(-1, 2).flip(1).flatten())

    def pack(self, weight, stats=None):
        packed = super().pack(weight)
        return Packed(self.id, packed.shape, packed.data.view(-1, 2).flip(1).flatten())


class OffByOne(Half):
    """A slice that begins later is a row late."""

    def rows(self, packed, index):
        late = isinstance(index, slice) and index.start and len(packed.shape) > 1
        return super().rows(packed, slice(None)).roll(1, 0)[index] if late else super().rows(packed, index)


class Sorting(Half):
    """Takes rows in their old order."""

    def take(self, packed, index):
        return super().take(packed, index.sort().values)


class Dithering(Half):
    """Rounds every other row down."""

    def pack(self, weight, stats=None):
        weight = weight.float().clone()
        if weight.ndim > 1:
            weight[1::2] *= 1 - 2**-8
        return super().pack(weight)


class Strideless(Half):
    """Takes memory for rows, whatever the strides."""

    def pack(self, weight, stats=None):
        return super().pack(weight.as_strided(weight.shape, torch.empty(weight.shape).stride()))


class Spoiling(Half):
    """Uses its input as scratch memory."""

    def pack(self, weight, stats=None):
        packed = super().pack(weight.clone())
        weight.zero_()
        return packed


class Remembering(Half):
    """Keeps a part of what reading needs to itself."""

    number = itertools.count(1)

    def __init__(self):
        self.key = next(self.number) % 127 + 1

    def elements(self, data):
        return super().elements(data ^ self.key)

    def pack(self, weight, stats=None):
        packed = super().pack(weight)
        return Packed(self.id, packed.shape, packed.data ^ self.key)


class Aligned(Half):
    """Believes that bytes begin where elements may."""

    def elements(self, data):
        return data.view(torch.float16).float()


class Trusting(Half):
    """Reads what it needs, whatever comes."""

    def checked(self, packed):
        needed = self.wire_bytes(packed.shape)
        return torch.cat([packed.data, packed.data.new_zeros(needed)])[:needed].clone()


class Reluctant(ReadOnly):
    """Says in its own words that it can't pack."""

    def pack(self, weight, stats=None):
        self.wire_bytes(tuple(weight.shape))
        raise NotImplementedError("one day")


class Homebound(Half):
    """Has a table that stays in the processor's memory."""

    def elements(self, data):
        values = super().elements(data)
        return values * torch.ones(values.shape)


class _Suite(FormatContract):
    made: type[WeightFormat] = Half
    negligible = 2.0**-24

    @pytest.fixture
    def installed(self):
        return Installed(FormatSpec(name="half", target=f"{__name__}:Half", summary="fp16."), self.made)


class _Documented(_Suite):
    """With a reader of its own."""

    def oracle(self, packed):
        elements = struct.unpack(f"<{packed.data.numel() // 2}e", bytes(packed.data.tolist()))
        return torch.tensor(elements).view(packed.shape)


class _Exact(_Suite):
    negligible = 0.0


class _Member(_Suite):
    members = ("half.b16",)


class _Pairs(_Documented):
    made, vectors, multiple = HalfOfPairs, False, 2


class _ReadOnly(_Pairs):
    made, packs = ReadOnly, False

    def sample(self, format, shape):
        return HalfOfPairs().pack(torch.arange(float(torch.Size(shape).numel())).view(shape))


def suite(made: type[WeightFormat], base: type[FormatContract] = _Suite) -> type:
    """The suite over a double; collected by its name from this module."""
    name = f"SuiteOf{made.__name__}"
    globals()[name] = type(name, (base,), {"made": made, "__module__": __name__})
    return globals()[name]


class SuiteOfHalfWithVectors(_Pairs):
    """Declares absent what is there."""

    made = Half


class Family(Half):
    """Has no member of its own name."""

    @classmethod
    def from_id(cls, id):
        if id != "half.le":
            raise PluginError("members are half.le")
        return cls()


class SuiteWithoutMembers(_Suite):
    made = Family


class SuiteWithoutSample(_Suite):
    made, packs = ReadOnly, False


SUITE = FormatContract
RIGHT = [suite(Half, _Documented), suite(HalfOfPairs, _Pairs), suite(ReadOnly, _ReadOnly), suite(Single, _Exact)]
DOUBLES = {
    "test_the_id_names_the_member": Double(suite(Renamed), r"from_id\('half'\)\.id is 'half'\ncame: half\.le"),
    "test_an_unknown_member_is_refused": Double(suite(Agreeable), "PluginError.*'half'\ncame: nothing was raised"),
    "test_bytes_are_as_many_as_promised": Double(
        suite(OneRowAtLeast), r"2 bytes, as wire_bytes says\ncame: 0 bytes\nweights: Weights\(rows=0, columns=1,"
    ),
    "test_bytes_of_large_matrices_are_counted": Double(suite(Narrow), r"whole numbers above 0.*\ncame: \[0, 0, 32768"),
    "test_packing_keeps_the_weights": Double(suite(Saturating), r"came: -?1000 instead of -?10000 in row 0, column 0"),
    "test_values_that_are_not_finite_are_refused": Double(
        suite(Glancing), r"CheckpointError\ncame: nothing was raised\nweights: Weights\(rows=2, columns=1.*\nvalue: nan"
    ),
    "test_unpacking_equals_the_oracle": Double(suite(BigEndian, _Documented), r"what oracle\(packed\) gives\ncame: "),
    "test_rows_are_those_of_the_whole": Double(suite(OffByOne), r"rows=2, columns=1.*\nindex: slice\(1, "),
    "test_taken_rows_are_moved_bit_for_bit": Double(suite(Sorting), r"the rows' values\n.*\n.*\nindex: tensor\(\[1, 0"),
    "test_a_row_is_packed_by_itself": Double(suite(Dithering), r"the bytes that the rows have among the others"),
    "test_the_same_values_give_the_same_bytes": Double(suite(Strideless), "the same bytes when part of a wider tensor"),
    "test_packing_leaves_its_input": Double(suite(Spoiling), r"the input as it was\ncame: 0\.0 instead of"),
    "test_bytes_are_read_by_another_process": Double(suite(Remembering), r"what was packed\ncame: .* instead of"),
    "test_bytes_of_a_mapped_file_are_read_anywhere": Double(suite(Aligned), "storage_offset"),
    "test_bytes_of_a_wrong_length_are_refused": Double(
        suite(Trusting), r"CheckpointError whose message matches '1'\ncame: nothing was raised"
    ),
    "test_shapes_that_it_can_not_hold_are_refused": Double(
        SuiteOfHalfWithVectors, r"PluginError\ncame: nothing was raised\nshape: \(1,\)"
    ),
    "test_packing_is_refused_where_it_is_only_read": Double(
        suite(Reluctant, _ReadOnly), r"CannotPack\ncame: NotImplementedError\('one day'\)"
    ),
    "test_rows_stay_on_the_device_of_the_bytes": Double(suite(Homebound), "device"),
}


class Padded(Half):
    """Packs a byte more than it says."""

    def pack(self, weight, stats=None):
        packed = super().pack(weight)
        return Packed(self.id, packed.shape, torch.cat([packed.data, torch.zeros(1, dtype=torch.uint8)]))


class NeighboursScale(Half):
    """Each row's scale is that of the row before."""

    def pack(self, weight, stats=None):
        largest = weight.float().abs().reshape(-1, weight.shape[-1]).amax(1, keepdim=True)
        grid = largest.roll(1, 0).clamp(min=1e-4) / 127
        codes = (weight.float().view(-1, weight.shape[-1]) / grid).round().clamp(-127, 127)
        return super().pack((codes * grid).view(weight.shape))


class Overlooking(Half):
    """Reads what it needs of longer bytes."""

    def checked(self, packed):
        return super().checked(Packed(self.id, packed.shape, packed.data[: self.wire_bytes(packed.shape)]))


class Counting(Half):
    """Writes down how often it was used."""

    number = itertools.count()

    def pack(self, weight, stats=None):
        packed = super().pack(weight)
        data = packed.data.clone()
        data[:1] = next(self.number) % 251
        return Packed(self.id, packed.shape, data)


class Scribbling(Half):
    """Decodes in place."""

    def rows(self, packed, index):
        rows = super().rows(packed, index)
        packed.data.fill_(1)
        return rows


@pytest.mark.parametrize(
    ("wrong", "caught"),
    [
        (suite(Spelling, _Member), "test_an_unknown_member_is_refused"),
        (suite(Parsing, _Member), "test_an_unknown_member_is_refused"),
        (suite(Stepping, _Exact), "test_packing_keeps_the_weights"),
        (suite(Flat), "test_shapes_that_it_can_not_hold_are_refused"),
        (suite(Padded), "test_bytes_are_as_many_as_promised"),
        (suite(NeighboursScale), "test_packing_keeps_the_weights"),
        (suite(NeighboursScale), "test_a_row_is_packed_by_itself"),
        (suite(Overlooking), "test_bytes_of_a_wrong_length_are_refused"),
        (suite(Counting), "test_the_same_values_give_the_same_bytes"),
        (suite(Scribbling), "test_bytes_of_a_mapped_file_are_read_anywhere"),
    ],
)
def test_these_are_caught_too(failures, wrong, caught):
    assert caught in failures(wrong, caught)


def test_a_family_needs_members(verdict):
    name = "test_an_unknown_member_is_refused"
    expected = "SuiteWithoutMembers must give members: ids of members of the family (members are half.le)"
    assert expected in verdict(SuiteWithoutMembers, name)[name]


def test_a_format_that_is_only_read_needs_a_sample(verdict):
    name = "test_bytes_are_as_many_as_promised"
    assert "SuiteWithoutSample must give sample(format, shape)" in verdict(SuiteWithoutSample, name)[name]


@pytest.mark.parametrize(("name", "bound"), [("error", 1.0), ("error", 1e9), ("error", -1e-3), ("negligible", 1e-3)])
def test_a_bound_that_holds_nothing_is_refused(name, bound):
    with pytest.raises(ValueError, match=f"^SuiteOfLax: {name} is {bound!r}; give a bound below"):
        type("SuiteOfLax", (_Suite,), {name: bound})
