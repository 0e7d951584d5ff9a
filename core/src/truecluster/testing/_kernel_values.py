"""The part of the kernel contract that is about values: leaves are held to fp64, composites to the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truecluster.api import Description, WeightFormat
from truecluster.nn import torch_dtype

from ._kernel_cases import ROUNDING, Case, Taken
from ._kernel_catalogue import BIASED, COMPOSITES, EMBEDDINGS, HEAD_LINEARS, LINEARS, NORMS, ROWS_TO_ROWS
from ._lowered import error, unpacked
from .rules import ranging, require

SIZES = (1.0, 1e-3, 1e3)
"""Of the elements that are given; the smallest shows whether a norm adds its eps."""


@attrs.frozen
class Example:
    """A description of the author's own. ``inputs(rows)`` gives what it is called with, made anew each time.

    Tensors among the inputs are on the host; the first has that many rows, as the result has.
    """

    description: Description
    inputs: Callable[[int], tuple[Any, ...]] = attrs.field(repr=False)


class ValueTests:
    """What comes is what is described."""

    examples: ClassVar[Sequence[Example]] = ()
    """What the kernel takes beyond the descriptions of ``nn``."""
    largest: ClassVar[int] = 300
    """The most rows of a step: more than a tile of any kernel."""

    def tolerance(self, format: WeightFormat) -> float:
        """Bound of a linear's relative error in a row, in fp32 with weights in ``format``.

        More where activations are rounded. Composites may have four times as much, halves at least their rounding.
        """
        return 1e-5

    def bound(self, case: Case) -> float:
        """Bound of the relative error of a row."""
        return max(self.tolerance(case.format), ROUNDING[case.dtypes.compute])

    def near(self, found: torch.Tensor, wanted: torch.Tensor, bound: float, **inputs: Any) -> None:
        """Each row within ``bound``."""
        came = error(found, wanted) if found.shape == wanted.shape else f"a result of shape {list(found.shape)}"
        expected = f"{list(wanted.shape)}, each row within a relative error of {bound:g}"
        require(isinstance(came, float) and came <= bound, expected, came, **inputs)

    def drawn(self, data: st.DataObject, cases: list[Case]) -> tuple[Case, torch.Tensor]:
        """One of the cases, and rows for it."""
        case = data.draw(st.sampled_from(cases))
        count, size = data.draw(st.integers(1, self.largest)), data.draw(st.sampled_from(SIZES))
        return case, case.rows(count, size=size)

    @ranging
    @given(data=st.data())
    def test_a_linear_equals_fp64(self, taken: Taken, data: st.DataObject) -> None:
        """A linear without a bias gives x @ weight.T of the weight that its format unpacks, in every row."""
        case, x = self.drawn(data, taken.some(LINEARS))
        wanted = x.double() @ unpacked(case.description.weight, case.target).T
        self.near(case.call(case.bind(), x), wanted, self.bound(case), case=case, rows=len(x))

    @ranging
    @given(data=st.data())
    def test_a_bias_is_added_to_every_row(self, taken: Taken, data: st.DataObject) -> None:
        """A linear with a bias gives what it gives without one, and the bias, in every row."""
        case, x = self.drawn(data, taken.some(BIASED))
        wanted = x.double() @ unpacked(case.description.weight, case.target).T
        added = case.call(case.bind(), x).double() - wanted
        bias = unpacked(case.description.bias, case.target)
        room = self.bound(case) * (wanted.norm(dim=-1) + bias.norm())
        wrong = (added - bias).norm(dim=-1)
        row = int((wrong / room).argmax())
        expected = f"row {row} differing from x @ weight.T by the bias, within {float(room[row]):.3g}"
        require(bool((wrong <= room).all()), expected, float(wrong[row]), case=case, rows=len(x))

    @ranging
    @given(data=st.data())
    def test_a_head_works_in_fp32(self, taken: Taken, data: st.DataObject) -> None:
        """A matrix whose role is the head is applied in fp32, whatever linears compute in."""
        case, x = self.drawn(data, taken.some(HEAD_LINEARS))
        wanted = x.double() @ unpacked(case.description.weight, case.target).T
        self.near(case.call(case.bind(), x), wanted, self.tolerance(case.format), case=case, rows=len(x))

    @ranging
    @given(data=st.data())
    def test_a_norm_equals_fp64(self, taken: Taken, data: st.DataObject) -> None:
        """A norm gives x / sqrt(mean(x²) + eps) · weight with fp32 inside, for rows of any size."""
        case, x = self.drawn(data, taken.some(NORMS))
        wide, weight = x.double(), unpacked(case.description.weight, case.target)
        wanted = wide / (wide.square().mean(-1, keepdim=True) + case.description.eps).sqrt() * weight
        bound = max(1e-6, ROUNDING[case.dtypes.compute] / 4)
        self.near(case.call(case.bind(), x), wanted, bound, case=case, x=x[:1, :3].tolist(), rows=len(x))

    @ranging
    @given(data=st.data())
    def test_an_embedding_looks_rows_up(self, taken: Taken, data: st.DataObject) -> None:
        """An embedding gives the rows that the ids name, in their order, some more than once, some never."""
        case = data.draw(st.sampled_from(taken.some(EMBEDDINGS)))
        last = case.description.weight.shape[0] - 1
        ids = [last, 0, *data.draw(st.lists(st.integers(0, last), max_size=self.largest))]
        run, given_ids = case.bind(), case.device.upload(torch.tensor(ids, dtype=torch.int32))
        wanted = unpacked(case.description.weight, case.target)[ids]
        self.near(case.device.download(run(given_ids)), wanted, 1e-6 + rounding_of(case), case=case, ids=ids)

    @ranging
    @given(data=st.data())
    def test_a_composite_equals_the_reference(self, taken: Taken, data: st.DataObject) -> None:
        """What is taken as a whole, from `Attend` to `DecoderBlock`, gives what the reference gives part by part."""
        case = data.draw(st.sampled_from(taken.some(COMPOSITES)))
        x = case.rows(data.draw(st.integers(1, self.largest)))
        wanted = case.call(case.reference(), x)
        self.near(case.call(case.bind(), x), wanted, 4 * self.bound(case), case=case, rows=len(x))

    def test_results_have_the_promised_dtype(self, taken: Taken) -> None:
        """Linears and norms give the compute dtype, embeddings and blocks the residual dtype, heads fp32."""
        for case in taken.of((*ROWS_TO_ROWS, *NORMS)):
            came = case.call(case.bind(), case.rows(2)).dtype
            require(came == case.result, str(case.result), came, case=case)
        for case in taken.of(EMBEDDINGS):
            came = case.bind()(case.device.upload(torch.tensor([1, 0], dtype=torch.int32))).dtype
            require(
                came == torch_dtype(case.dtypes.residual),
                f"the residual, {case.dtypes.residual.value}",
                came,
                case=case,
            )

    def test_examples_equal_the_reference(self, taken: Taken) -> None:
        """Each of the author's own ``examples`` is taken in some format, and gives what its children give."""
        if not self.examples:
            pytest.skip("no example is given")
        for example in self.examples:
            cases = taken.of([example.description])
            require(bool(cases), "that the kernel takes the example in some format", "it takes it in none", of=example)
            for case, count in itertools.product(cases, (1, 7, self.largest)):
                wanted = case.reference()(*map(case.upload, example.inputs(count)))
                came = case.bind()(*map(case.upload, example.inputs(count)))
                found, wanted = case.device.download(came), case.device.download(wanted)
                self.near(found, wanted, 4 * self.bound(case), case=case, rows=count)


def rounding_of(case: Case) -> float:
    """Relative error of a row in the residual dtype."""
    return ROUNDING[case.dtypes.residual]
