"""The part of the kernel contract that is about rows: none depends on what it must not depend on."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster.api import Kernel
from truecluster.nn import Attend

from ._kernel_cases import Case, Taken
from ._kernel_catalogue import ONE_OF_EACH, ROWS_TO_ROWS
from ._kernel_values import ValueTests
from ._lowered import threads
from .rules import Broken, ranging, require

OUTLIER = 1e4
"""Times what its mates are."""


fewer = settings(ranging, max_examples=25)
"""Where each example takes long."""


def same(found: torch.Tensor, wanted: torch.Tensor, expected: str, **inputs: object) -> None:
    """Bit for bit, or not a number in both."""
    require(found.shape == wanted.shape, f"{expected}, of shape {list(wanted.shape)}", list(found.shape), **inputs)
    unlike = ~((found == wanted) | (found.isnan() & wanted.isnan())).flatten(1).all(1)
    apart = float((found.float() - wanted.float()).abs().nan_to_num(nan=torch.inf).max()) if unlike.any() else 0.0
    came = f"rows {unlike.nonzero().flatten().tolist()} differ, by at most {apart:.3g}"
    require(not unlike.any(), expected, came, **inputs)


def claimed(kernel: Kernel) -> None:
    """Skips the test of a kernel that doesn't claim to be invariant."""
    if not kernel.invariant:
        pytest.skip(f"{type(kernel).__name__} doesn't claim to be invariant")


class RowTests(ValueTests):
    """Of every description that is computed row by row; in a sequence, rows see those before them."""

    def several(self, data: st.DataObject, taken: Taken, least: int = 2) -> tuple[Case, torch.Tensor]:
        """A case, and at least that many rows for it."""
        case = data.draw(st.sampled_from(taken.some(ROWS_TO_ROWS)))
        return case, case.rows(data.draw(st.integers(least, self.largest)))

    @ranging
    @given(data=st.data())
    def test_a_row_does_not_see_its_neighbours(self, taken: Taken, data: st.DataObject) -> None:
        """An outlier beside a row changes no bit of it, as it would with one scale for all activations."""
        case, x = self.several(data, taken)
        at = len(x) - 1 if case.stateful else data.draw(st.integers(0, len(x) - 1))
        loud = x.clone()
        loud[at] *= OUTLIER
        mates = torch.arange(len(x)) != at
        alone, beside = (case.call(case.bind(), given)[mates] for given in (x.clone(), loud))
        same(beside, alone, f"the same bits beside row {at} times {OUTLIER:g}", case=case, rows=len(x))

    @ranging
    @given(data=st.data())
    def test_what_is_not_a_number_stays_visible(self, taken: Taken, data: st.DataObject) -> None:
        """A row with an element that is not a number gives no finite one, and its mates give nothing but finite ones.

        Attention mixes elements of the same place, so that there all elements of the row are given so; its mates are
        of another sequence.
        """
        case, x = self.several(data, taken)
        at = len(x) - 1 if case.stateful else data.draw(st.integers(0, len(x) - 1))
        x[at, 0 if isinstance(case.description, Attend) else -1 :] = float("nan")
        run = case.bind()
        apart = (
            (0, 0, x[:-1]),
            (1, 0, x[-1:]),
        )  # what is masked may count as 0 · NaN
        finite = (case.stage(run).step(*apart) if case.stateful else case.call(run, x)).isfinite()
        mates = torch.arange(len(x)) != at
        came = f"{int(finite[at].sum())} finite elements"
        require(not finite[at].any(), f"no finite element in row {at}", came, case=case, rows=len(x))
        require(bool(finite[mates].all()), "finite mates", "mates that aren't", case=case, at=at, rows=len(x))

    @ranging
    @given(data=st.data())
    def test_bits_depend_on_no_row_count(self, kernel: Kernel, taken: Taken, data: st.DataObject) -> None:
        """Where the kernel claims to be invariant, a row has the same bits however many rows the step has."""
        claimed(kernel)
        case, x = self.several(data, taken)
        run, count = case.bind(), data.draw(st.integers(1, len(x) - 1))
        whole = case.call(run, x.clone()).clone()[:count]
        part = case.call(run, x[:count].clone())
        same(part, whole, f"the bits that these rows have in a step of {len(x)}", case=case, rows=count)

    @fewer
    @given(data=st.data())
    def test_bits_depend_on_no_threads(self, kernel: Kernel, taken: Taken, data: st.DataObject) -> None:
        """Where the kernel claims to be invariant, a row has the same bits on any number of threads."""
        claimed(kernel)
        case, x = self.several(data, taken, least=1)
        run, number = case.bind(), data.draw(st.integers(2, 5))
        with threads(1):
            wanted = case.call(run, x.clone()).clone()
        with threads(number):
            found = case.call(run, x.clone())
        same(found, wanted, "the bits that one thread gives", case=case, rows=len(x), threads=number)

    @ranging
    @given(data=st.data())
    def test_a_call_leaves_nothing_behind(self, taken: Taken, data: st.DataObject) -> None:
        """The same rows give the same bits again after other rows, more or fewer, loud or not numbers."""
        case, x = self.several(data, taken, least=1)
        other = case.rows(data.draw(st.integers(1, self.largest)), 1, data.draw(st.sampled_from((1.0, 1e4, torch.nan))))
        run, between = case.bind(), f"{len(other)}, of size {float(other[0, 0].abs()):.3g}"
        before = case.call(run, x.clone()).clone()
        case.call(run, other)
        same(case.call(run, x.clone()), before, "the bits of the first call", case=case, rows=len(x), between=between)

    def test_a_result_outlives_the_next_call(self, taken: Taken) -> None:
        """What a call returned keeps its values when the next call returns: it is not memory that calls share."""
        for case in taken.some(ONE_OF_EACH):
            run = case.bind()
            first = case.call(run, case.rows(3))
            kept = first.clone()
            case.call(run, case.rows(3, seed=1))
            same(first, kept, "the first result as it was, after another call", case=case, rows=3)

    def test_the_input_is_not_changed(self, taken: Taken) -> None:
        """The rows that are given are as they were afterwards."""
        for case in taken.some(ONE_OF_EACH):
            x = case.rows(3)
            before = x.clone()
            case.call(case.bind(), x)
            same(x, before, "the input as it was given", case=case, rows=3)

    def test_no_rows_give_no_rows(self, taken: Taken) -> None:
        """A step of no rows gives a result of no rows, and as many columns as ever."""
        for case in taken.some(ONE_OF_EACH):
            run = case.bind()
            expected = f"shape {[0, case.call(run, case.rows(1)).shape[1]]}"
            try:
                came = f"shape {list(case.call(run, case.rows(0)).shape)}"
            except Exception as failed:
                raise Broken(expected, failed, {"case": case, "rows": 0}) from failed
            require(came == expected, expected, came, case=case, rows=0)

    def test_rows_may_lie_anyhow(self, taken: Taken) -> None:
        """Rows that are strided, transposed or repeated in memory give what their contiguous copies give."""
        for case in taken.some(ONE_OF_EACH):
            run, x = case.bind(), case.rows(6)
            wide = torch.cat([x, x], dim=1)[:, : case.width]
            for name, lying in {
                "strided": wide,
                "transposed": x.T.contiguous().T,
                "repeated": x[:1].expand(6, -1),
            }.items():
                wanted = case.call(run, lying.contiguous()).clone()
                self.near(case.call(run, lying), wanted, 4 * self.bound(case), case=case, rows=6, lying=name)
