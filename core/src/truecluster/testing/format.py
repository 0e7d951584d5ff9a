"""The contract of weight formats."""

from __future__ import annotations

import attrs
import pytest
import torch

from truecluster.api import CannotPack, CheckpointError, Packed, PluginError, WeightFormat

from ._missing import missing


class FormatContract:
    """Give ``format``, ``oracle`` and, for a format that can't pack, ``sample``; say what the format is able to do."""

    packs = True
    """Whether `WeightFormat.pack` works; else it must raise `CannotPack`."""
    vectors = True
    """Whether tensors of one axis can be held; else they must be refused with `PluginError`."""
    error = 1e-2
    """Bound of the relative squared error of packing normally distributed weights."""
    shapes: tuple[tuple[int, int], ...] = ((7, 96), (5, 40), (3, 1), (1, 130))
    """What is packed; the widths fit no quant group, so that a short last one is seen."""

    @pytest.fixture
    def format(self) -> WeightFormat:
        """The member under test."""
        raise missing(self, "the fixture 'format'", "a WeightFormat, such as Int8()")

    def oracle(self, packed: Packed) -> torch.Tensor:
        """The whole tensor in fp32, unpacked from the bytes without the code under test."""
        raise missing(self, "oracle(packed)", "the tensor in fp32, unpacked by another implementation")

    def sample(self, format: WeightFormat, shape: tuple[int, int]) -> Packed:
        """A packed matrix."""
        if not self.packs:
            raise missing(self, "sample(format, shape)", "a Packed of that shape, made without the format")
        return format.pack(normal(shape))

    @pytest.fixture
    def samples(self, format: WeightFormat) -> list[Packed]:
        return [self.sample(format, shape) for shape in self.shapes]

    def test_the_id_names_the_member(self, format: WeightFormat) -> None:
        assert type(format).from_id(format.id).id == format.id

    def test_an_unknown_member_is_refused_naming_those_that_exist(self, format: WeightFormat) -> None:
        with pytest.raises(PluginError, match=format.id.replace(".", r"\.")):
            type(format).from_id(f"{format.id}.no-such-member")

    def test_packed_bytes_are_flat_and_as_many_as_promised(self, format: WeightFormat, samples: list[Packed]) -> None:
        for packed in samples:
            assert packed.format == format.id
            assert packed.data.dtype == torch.uint8
            assert tuple(packed.data.shape) == (format.wire_bytes(packed.shape),)

    def test_unpacking_equals_the_oracle(self, format: WeightFormat, samples: list[Packed]) -> None:
        for packed in samples:
            whole = format.unpack(packed)
            assert whole.dtype == torch.float32
            torch.testing.assert_close(whole, self.oracle(packed), rtol=1e-6, atol=0)

    def test_rows_are_those_of_the_whole(self, format: WeightFormat, samples: list[Packed]) -> None:
        for packed in samples:
            whole = format.unpack(packed)
            named: list[slice | torch.Tensor] = [*slices(packed), *indices(packed)]
            for index in named:
                rows = format.rows(packed, index)
                assert rows.dtype == torch.float32
                assert torch.equal(rows, whole[index])

    def test_unaligned_bytes_read_the_same(self, format: WeightFormat, samples: list[Packed]) -> None:
        """Tensors of a mapped file begin anywhere."""
        for packed in samples:
            shifted = torch.cat([packed.data.new_zeros(1), packed.data])[1:]
            assert torch.equal(format.unpack(attrs.evolve(packed, data=shifted)), format.unpack(packed))

    def test_taken_rows_keep_their_values(self, format: WeightFormat, samples: list[Packed]) -> None:
        for packed in samples:
            for index in indices(packed):
                taken = format.take(packed, index)
                assert taken.shape == (len(index), *packed.shape[1:])
                assert taken.data.numel() == format.wire_bytes(taken.shape)
                assert torch.equal(format.unpack(taken), format.unpack(packed)[index])

    def test_taking_every_row_changes_no_byte(self, format: WeightFormat, samples: list[Packed]) -> None:
        for packed in samples:
            taken = format.take(packed, torch.arange(packed.shape[0]))
            assert taken.format == packed.format
            assert torch.equal(taken.data, packed.data)

    def test_vectors_are_one_row_or_refused(self, format: WeightFormat) -> None:
        if not self.vectors:
            with pytest.raises(PluginError):
                format.wire_bytes((6,))
        elif self.packs:
            packed = format.pack(normal((6,)))
            assert torch.equal(format.rows(packed, torch.tensor([0])), format.unpack(packed))
            assert tuple(format.unpack(packed).shape) == (6,)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
    def test_packing_keeps_the_weights(self, format: WeightFormat, dtype: torch.dtype) -> None:
        for shape in self.shapes:
            weight = normal(shape).to(dtype)
            if not self.packs:
                with pytest.raises(CannotPack):
                    format.pack(weight)
                continue
            before = weight.clone()
            wide = format.unpack(format.pack(weight)) - weight.float()
            assert torch.equal(weight, before)
            assert float(wide.square().sum()) <= self.error * float(weight.float().square().sum())

    def test_zeros_stay_zeros(self, format: WeightFormat) -> None:
        if self.packs:
            assert not format.unpack(format.pack(torch.zeros(3, 40))).any()

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_values_that_are_not_finite_are_refused(self, format: WeightFormat, value: float) -> None:
        if self.packs:
            weight = normal((4, 64))
            weight[2, 5] = value
            with pytest.raises(CheckpointError):
                format.pack(weight)


def normal(shape: tuple[int, ...]) -> torch.Tensor:
    """The same normally distributed fp32 numbers every time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def slices(packed: Packed) -> list[slice]:
    """Some slices of its rows."""
    return [slice(None), slice(0, 1), slice(1, None), slice(packed.shape[0], None)]


def indices(packed: Packed) -> list[torch.Tensor]:
    """Rows backwards, one twice, none."""
    last = packed.shape[0] - 1
    return [torch.arange(last, -1, -1), torch.tensor([last, 0, last]), torch.tensor([], dtype=torch.long)]
