"""What reading packed bytes must keep to."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import torch
from hypothesis import strategies as st

from truecluster._weights.store import Store
from truecluster.api import CheckpointError, WeightFormat

from ._format import FormatUnderTest
from ._values import CUTS, ORDERS, Weights, difference, over_weights
from .rules import refusal, require


class ReadingRules(FormatUnderTest):
    """For what was packed, and for samples of what is only read."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        """Where nodes keep packed bytes."""
        return Store(tmp_path)

    @over_weights()
    def test_unpacking_equals_the_oracle(self, format: WeightFormat, weights: Weights) -> None:
        """Unpacking gives what the author's second reader makes of the same bytes, to a millionth of each value."""
        weights = self.fitting(weights)
        packed = self.packed(format, weights)
        came, wanted = format.unpack(packed), self.oracle(packed)
        alike = came.shape == wanted.shape and torch.allclose(came, wanted, rtol=1e-6, atol=0, equal_nan=True)
        require(alike, "what oracle(packed) gives", difference(came, wanted), weights=weights)

    @over_weights(order=(ORDERS, [0]), cut=(CUTS, slice(1, None)))
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

    @over_weights(order=(ORDERS, [0]))
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

    @over_weights(begin=(st.integers(1, 7), 1), order=(ORDERS, [0]))
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
