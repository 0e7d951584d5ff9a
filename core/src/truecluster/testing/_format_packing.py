"""What packing must keep to."""

from __future__ import annotations

import attrs
import pytest
import torch
from hypothesis import strategies as st

from truecluster.api import CannotPack, CheckpointError, WeightFormat

from ._format import FormatUnderTest
from ._values import CUTS, DTYPES, VALUES, Weights, difference, over_weights
from .rules import refusal, require

NOT_FINITE = ("nan", "inf", "-inf")
SMALLEST = 2.0**-149
"""Of all weights but zero, those of fp32."""


class PackingRules(FormatUnderTest):
    """Skipped where the format is only read, but for the last one."""

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
        least = self.negligible or SMALLEST
        size = wanted.abs().amax(1, keepdim=True).clamp(min=least)  # squares of huge numbers overflow
        bound = self.error * (wanted / size).square().sum(1) + wanted.shape[1] * (self.negligible / size[:, 0]) ** 2
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

    @over_weights(cut=(CUTS, slice(1, None)))
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

    def test_packing_is_refused_where_it_is_only_read(self, format: WeightFormat) -> None:
        """``pack`` raises `CannotPack` where the contract says ``packs = False``."""
        if self.packs:
            pytest.skip("the format packs")
        weights = self.fitting(Weights(2, 1))
        with refusal(CannotPack, weights=weights):
            format.pack(weights.tensor())


def format_refuses(format: WeightFormat, tensor: torch.Tensor) -> bool:
    """Whether packing raises `CheckpointError`."""
    try:
        format.pack(tensor)
    except CheckpointError:
        return True
    return False
