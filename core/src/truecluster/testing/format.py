"""The contract of weight formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import pytest
import torch
from hypothesis import strategies as st

from truecluster._weights.store import Store
from truecluster.api import CannotPack, CheckpointError, Packed, PluginError, WeightFormat

from ._contract import Contract, Installed
from ._missing import missing
from ._rules import refusal, require
from ._values import DTYPES, VALUES, Weights, difference, over_weights

NEGLIGIBLE = 1e-6
"""An error of one weight that never counts: formats may flush what is far smaller than any weight that matters."""
NOT_FINITE = ("nan", "inf", "-inf")

orders = st.lists(st.integers(0, 8), max_size=12)
"""Rows in any order, some twice, or none; larger numbers than there are rows are taken modulo."""
cuts = st.builds(slice, st.none() | st.integers(0, 9), st.none() | st.integers(0, 12))


class FormatContract(Contract):
    """Say what the format is able to do. Where it is only read, give ``sample`` and ``oracle`` too."""

    KIND = "format"
    members: ClassVar[Sequence[str]] = ()
    """Ids of the members to test; may be left out where the family's name alone is a member."""
    packs: ClassVar[bool] = True
    """Whether `WeightFormat.pack` works; else it must raise `CannotPack`."""
    vectors: ClassVar[bool] = True
    """Whether tensors of one axis can be held; else they must be refused with `PluginError`."""
    multiple: ClassVar[int] = 1
    """Rows have a multiple of so many elements; other widths must be refused with `PluginError`."""
    largest: ClassVar[float] = 65504.0
    """The largest magnitude that is sure to be held; a larger one may be refused with `CheckpointError`."""
    error: ClassVar[float] = 1e-2
    """Bound of the relative squared error of each row that was packed."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Every method runs once for each member."""
        if self.members and "member" in metafunc.fixturenames:
            metafunc.parametrize("member", self.members)

    @pytest.fixture(autouse=True)
    def one_thread(self) -> Iterator[None]:
        """As a coordinator packs: threads on busy cores wait for each other."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    @pytest.fixture
    def member(self, installed: Installed) -> str:
        """The id of the member under test."""
        return str(installed.spec.name)

    @pytest.fixture
    def format(self, installed: Installed, member: str) -> WeightFormat:
        """The member under test."""
        try:
            made = installed.target.from_id(member)
        except PluginError as error:
            raise missing(self, "members", f"ids of members of the family ({error})") from error
        assert isinstance(made, WeightFormat)
        return made

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        """Where nodes keep packed bytes."""
        return Store(tmp_path)

    def oracle(self, packed: Packed) -> torch.Tensor:
        """The whole tensor in fp32, unpacked from the bytes without the code under test."""
        if self.packs:
            pytest.skip("the contract gives no oracle(packed), a second reader of the documented bytes")
        raise missing(self, "oracle(packed)", "the tensor in fp32, unpacked by another implementation")

    def sample(self, format: WeightFormat, shape: tuple[int, ...]) -> Packed:
        """A packed tensor of any finite numbers, where the format can't pack one; ``shape`` may have no rows."""
        raise missing(self, "sample(format, shape)", "a Packed of that shape, made without the format")

    def fitting(self, weights: Weights) -> Weights:
        """As much like ``weights`` as the format can hold."""
        rows = 1 if weights.rows is None and not self.vectors else weights.rows
        return attrs.evolve(weights, rows=rows, columns=-(-weights.columns // self.multiple) * self.multiple)

    def packed(self, format: WeightFormat, weights: Weights) -> Packed:
        """A tensor of that shape: packed by the format, or given by the author."""
        return format.pack(weights.tensor()) if self.packs else self.sample(format, weights.shape)

    def needs_packing(self) -> None:
        """Skip what can't be said of a format that is only read."""
        if not self.packs:
            pytest.skip("the format is only read")

    def test_the_id_names_the_member(self, installed: Installed, format: WeightFormat) -> None:
        """An id is the family's name, or that and a dot and the member, and ``from_id`` leads back to the member."""
        family, again = format.id.partition(".")[0], type(format).from_id(format.id).id
        require(family == installed.spec.name, f"an id of the family {installed.spec.name!r}", format.id)
        require(again == format.id, f"from_id({format.id!r}) gives {format.id!r}", again)

    def test_an_unknown_member_is_refused(self, format: WeightFormat) -> None:
        """``from_id`` raises `PluginError` for a member that doesn't exist, and names those that do."""
        unknown = f"{format.id}.no-such-member"
        with refusal(PluginError, format.id.replace(".", r"\."), id=unknown):
            type(format).from_id(unknown)

    @over_weights()
    def test_bytes_are_as_many_as_promised(self, format: WeightFormat, weights: Weights) -> None:
        """A `Packed` has the format's id, the tensor's shape, and ``wire_bytes(shape)`` flat uint8, to the byte."""
        weights = self.fitting(weights)
        packed, promised = self.packed(format, weights), format.wire_bytes(weights.shape)
        named = (packed.format, packed.shape)
        require(named == (format.id, weights.shape), f"format and shape {(format.id, weights.shape)}", named)
        lies = (packed.data.dtype, packed.data.ndim, packed.data.is_contiguous())
        require(lies == (torch.uint8, 1, True), "flat, contiguous uint8", lies, weights=weights)
        found = packed.data.numel()
        require(found == promised, f"{promised} bytes, as wire_bytes says", f"{found} bytes", weights=weights)

    def test_bytes_of_large_matrices_are_counted(self, format: WeightFormat) -> None:
        """``wire_bytes`` is a whole number that grows with the rows, also for billions of elements."""
        shapes = [(rows, 1 << 14) for rows in (1 << 17, 1 << 18, (1 << 18) + 1, 1 << 20)]
        counts = [format.wire_bytes(shape) for shape in shapes]
        rising = all(isinstance(count, int) for count in counts) and sorted({0, *counts}) == [0, *counts]
        require(rising, "whole numbers above 0, each larger than the one before", counts, shapes=shapes)

    @over_weights(list(VALUES), DTYPES)
    def test_packing_keeps_the_weights(self, format: WeightFormat, weights: Weights) -> None:
        """Each row comes back within ``error``, and a row of zeros as zeros; or else what is too large is refused."""
        self.needs_packing()
        weights = self.fitting(weights)
        wanted = weights.tensor().double()
        try:
            packed = format.pack(weights.tensor())
        except CheckpointError as refused:
            beyond = bool((wanted.abs() > self.largest).any())
            require(beyond, f"weights up to {self.largest:g} are held", refused, weights=weights)
            return
        whole = format.unpack(packed)
        form = (whole.dtype, tuple(whole.shape))
        require(form == (torch.float32, weights.shape), f"fp32 of {weights.shape}", form, weights=weights)
        self._require_close(whole.double().view(-1, weights.columns), wanted.view(-1, weights.columns), weights)

    def _require_close(self, came: torch.Tensor, wanted: torch.Tensor, weights: Weights) -> None:
        """Row by row; fp64."""
        size = wanted.abs().amax(1, keepdim=True).clamp(min=NEGLIGIBLE)  # squares of huge numbers overflow
        bound = self.error * (wanted / size).square().sum(1) + wanted.shape[1] * (NEGLIGIBLE / size[:, 0]) ** 2
        wrong = ((came - wanted) / size).square().sum(1)
        holds = (wrong <= bound) & ((wanted != 0).any(1) | (came == 0).all(1))
        expected = f"a relative squared error of each row up to {self.error:g}, zeros stay zeros"
        for row in (~holds).nonzero().flatten().tolist():
            at = int((came[row] - wanted[row]).abs().argmax())
            told = f"{came[row, at].item():.6g} instead of {wanted[row, at].item():.6g} in row {row}, column {at}"
            require(False, expected, told, weights=weights)

    @over_weights(dtypes=DTYPES, value=(st.sampled_from(NOT_FINITE), "nan"), place=(st.integers(0, 10**6), -1))
    def test_values_that_are_not_finite_are_refused(
        self, format: WeightFormat, weights: Weights, value: str, place: int
    ) -> None:
        """``pack`` raises `CheckpointError` wherever a value is NaN or infinite."""
        self.needs_packing()
        weights = self.fitting(attrs.evolve(weights, rows=weights.rows or 1))
        tensor = weights.tensor()
        tensor.view(-1)[place % tensor.numel()] = float(value)
        with refusal(CheckpointError, weights=weights, value=value, at=place % tensor.numel()):
            format.pack(tensor)

    @over_weights()
    def test_unpacking_equals_the_oracle(self, format: WeightFormat, weights: Weights) -> None:
        """Unpacking gives what the author's second reader makes of the same bytes, to a millionth of each value."""
        weights = self.fitting(weights)
        packed = self.packed(format, weights)
        came, wanted = format.unpack(packed), self.oracle(packed)
        alike = came.shape == wanted.shape and torch.allclose(came, wanted, rtol=1e-6, atol=0, equal_nan=True)
        require(alike, "what oracle(packed) gives", difference(came, wanted), weights=weights)

    @over_weights(order=(orders, [0]), cut=(cuts, slice(1, None)))
    def test_rows_are_those_of_the_whole(
        self, format: WeightFormat, weights: Weights, order: list[int], cut: slice
    ) -> None:
        """``rows`` gives the named rows of ``unpack`` in fp32, bit for bit: any order, twice, none, a slice."""
        weights = self.fitting(weights)
        packed = self.packed(format, weights)
        whole = format.unpack(packed)
        named: list[torch.Tensor | slice] = [*indices(order, weights.rows), cut]
        for index in named:
            rows, wanted = format.rows(packed, index), whole if weights.rows is None else whole[index]
            alike = rows.dtype == torch.float32 and torch.equal(rows, wanted)
            require(alike, "the rows of unpack(packed)", difference(rows, wanted), weights=weights, index=index)

    @over_weights(order=(orders, [0]))
    def test_taken_rows_are_moved_bit_for_bit(self, format: WeightFormat, weights: Weights, order: list[int]) -> None:
        """``take`` packs the named rows in their order without a change; all of them are the same bytes."""
        weights = self.fitting(attrs.evolve(weights, rows=weights.rows or 1))
        packed = self.packed(format, weights)
        whole = format.unpack(packed)
        for index in indices(order, weights.rows):
            taken, wanted = format.take(packed, index), whole[index]
            named, expected = (taken.format, taken.shape), (format.id, tuple(wanted.shape))
            require(named == expected, f"format and shape {expected}", named, weights=weights, index=index)
            came = format.unpack(taken)
            same = torch.equal(came, wanted)
            require(same, "the rows' values", difference(came, wanted), weights=weights, index=index)
        every = format.take(packed, torch.arange(weights.shape[0])).data
        same = torch.equal(every, packed.data)
        require(same, "the same bytes for all rows in order", difference(every, packed.data), weights=weights)

    @over_weights(cut=(cuts, slice(1, None)))
    def test_a_row_is_packed_by_itself(self, format: WeightFormat, weights: Weights, cut: slice) -> None:
        """Rows pack to the same bytes, whatever rows stand beside them."""
        self.needs_packing()
        weights = self.fitting(attrs.evolve(weights, rows=weights.rows or 1))
        alone = format.pack(weights.tensor()[cut]).data
        among_others = format.take(format.pack(weights.tensor()), torch.arange(weights.shape[0])[cut]).data
        same, expected = torch.equal(alone, among_others), "the bytes that the rows have among the others"
        require(same, expected, difference(alone, among_others), weights=weights, rows=cut)

    @over_weights(dtypes=DTYPES)
    def test_the_same_values_give_the_same_bytes(self, format: WeightFormat, weights: Weights) -> None:
        """Packing depends on the values alone: not on the time, the dtype that holds them, or the memory's strides."""
        self.needs_packing()
        weights = self.fitting(weights)
        wanted = format.pack(weights.tensor()).data
        again = {
            "packed again": weights.tensor(),
            "held in fp32": weights.tensor().float(),
            "part of a wider tensor": torch.cat([weights.tensor()] * 2, dim=-1)[..., : weights.columns],
            "transposed in memory": weights.tensor().mT.contiguous().mT if len(weights.shape) > 1 else weights.tensor(),
        }
        for how, same in again.items():
            data = format.pack(same).data
            require(torch.equal(data, wanted), f"the same bytes when {how}", difference(data, wanted), weights=weights)

    @over_weights(list(VALUES), DTYPES)
    def test_packing_leaves_its_input(self, format: WeightFormat, weights: Weights) -> None:
        """``pack`` changes nothing in the tensor that it is given."""
        self.needs_packing()
        weights = self.fitting(weights)
        if format_refuses(format, tensor := weights.tensor()):
            return
        before = weights.tensor()
        require(torch.equal(tensor, before), "the input as it was", difference(tensor, before), weights=weights)

    @over_weights()
    def test_bytes_are_read_by_another_process(self, format: WeightFormat, weights: Weights, store: Store) -> None:
        """All that is needed to read a tensor is in its bytes: through the store, a member made anew reads the same."""
        weights = self.fitting(weights)
        packed = self.packed(format, weights)
        if not packed.data.numel():
            return
        data = store.read(store.write(packed.data))
        assert data is not None
        came, wanted = type(format).from_id(format.id).unpack(attrs.evolve(packed, data=data)), format.unpack(packed)
        require(torch.equal(came, wanted), "what was packed", difference(came, wanted), weights=weights)

    @over_weights(begin=(st.integers(1, 7), 1), order=(orders, [0]))
    def test_bytes_of_a_mapped_file_are_read_anywhere(
        self, format: WeightFormat, weights: Weights, begin: int, order: list[int]
    ) -> None:
        """A tensor in a mapped file begins at any byte, and reading leaves the file's bytes alone."""
        weights = self.fitting(weights)
        packed, index = self.packed(format, weights), indices(order, weights.rows)[0]
        before, file = packed.data.clone(), torch.cat([packed.data.new_zeros(begin), packed.data])
        mapped = attrs.evolve(packed, data=file[begin:])
        came, wanted = format.rows(mapped, index), format.rows(packed, index)
        alike = torch.equal(came, wanted)
        require(alike, "the rows as from aligned bytes", difference(came, wanted), weights=weights, begin=begin)
        if weights.rows is not None:
            came, wanted = format.take(mapped, index).data, format.take(packed, index).data
            alike = torch.equal(came, wanted)
            require(alike, "the same taken bytes", difference(came, wanted), weights=weights, begin=begin)
        left = torch.equal(file[begin:], before) and torch.equal(packed.data, before)
        require(left, "the packed bytes as they were", "reading changed them", weights=weights)

    @over_weights(change=(st.sampled_from([2, -2, 64, -64]), 64))
    def test_bytes_of_a_wrong_length_are_refused(self, format: WeightFormat, weights: Weights, change: int) -> None:
        """``rows`` and ``take`` raise `CheckpointError`, which says how many bytes came, if it isn't ``wire_bytes``."""
        weights = self.fitting(attrs.evolve(weights, rows=weights.rows or 1))
        packed = self.packed(format, weights)
        for more in (-1, 1, change):
            data = torch.cat([packed.data, packed.data.new_zeros(more)]) if more > 0 else packed.data[:more]
            damaged, came = attrs.evolve(packed, data=data), data.numel()
            with refusal(CheckpointError, str(came), weights=weights, bytes_given=came):
                format.rows(damaged, slice(None))
            with refusal(CheckpointError, str(came), weights=weights, bytes_given=came):
                format.take(damaged, torch.arange(weights.shape[0]))

    @over_weights()
    def test_shapes_that_it_can_not_hold_are_refused(self, format: WeightFormat, weights: Weights) -> None:
        """``wire_bytes`` raises `PluginError` for a shape that the format can't hold, and so does ``pack``."""
        refused = self.refused(weights.columns)
        if not refused:
            pytest.skip("the format holds every shape")
        for shape in refused:
            with refusal(PluginError, shape=shape):
                format.wire_bytes(shape)
            with refusal(PluginError, shape=shape):
                format.pack(torch.ones(shape))

    def refused(self, columns: int) -> list[tuple[int, ...]]:
        """Shapes of about that width that are declared as none that the format holds."""
        odd = columns if columns % self.multiple else columns + 1
        vectors: list[tuple[int, ...]] = [] if self.vectors else [(columns,)]
        return vectors if self.multiple == 1 else [*vectors, (2, odd)]

    def test_packing_is_refused_where_it_is_only_read(self, format: WeightFormat) -> None:
        """``pack`` raises `CannotPack` where the contract says ``packs = False``."""
        if self.packs:
            pytest.skip("the format packs")
        weights = self.fitting(Weights(2, 1))
        with refusal(CannotPack, weights=weights):
            format.pack(weights.tensor())

    def test_rows_stay_on_the_device_of_the_bytes(self, format: WeightFormat) -> None:
        """Rows are unpacked on the device where the packed bytes lie, without waiting there for a value.

        Shown on torch's ``meta`` device, which has no values and takes none from the processor.
        """
        weights = self.fitting(Weights(3, 130))
        packed = self.packed(format, weights)
        away = attrs.evolve(packed, data=packed.data.to("meta"))
        for index in (torch.tensor([2, 0, 2]), slice(0, 2), slice(None)):
            came, wanted = format.rows(away, index), format.rows(packed, index)
            form = (came.device.type, came.dtype, tuple(came.shape))
            expected = ("meta", wanted.dtype, tuple(wanted.shape))
            require(form == expected, f"device, dtype and shape {expected}", form, weights=weights, index=index)


def indices(order: list[int], rows: int | None) -> list[torch.Tensor]:
    """Of a tensor with so many rows, a vector counting as one: ``order``, and all backwards with the last one twice."""
    count = 1 if rows is None else rows
    drawn = [row % count for row in order] if count else []
    backwards = [*range(count - 1, -1, -1), count - 1] if count else []
    return [torch.tensor(index, dtype=torch.long) for index in (drawn, backwards)]


def format_refuses(format: WeightFormat, tensor: torch.Tensor) -> bool:
    """Whether packing raises `CheckpointError`."""
    try:
        format.pack(tensor)
    except CheckpointError:
        return True
    return False
