"""The part of the kernel contract that is about sequences, for what reads and writes their state."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from truecluster.api import Kernel

from ._kernel_cases import Case, Taken
from ._kernel_catalogue import STATEFUL
from ._kernel_rows import RowTests, claimed, fewer, same
from .rules import require


class StateTests(RowTests):
    """Of blocks, attention and `Attend`, whichever the kernel takes as a whole."""

    def sequence(self, data: st.DataObject, taken: Taken) -> tuple[Case, torch.Tensor]:
        """A case, and the rows of a sequence."""
        case = data.draw(st.sampled_from(taken.some(STATEFUL)))
        return case, case.rows(data.draw(st.integers(2, self.largest)))

    @fewer
    @given(data=st.data())
    def test_a_prompt_may_be_cut_anywhere(self, taken: Taken, data: st.DataObject) -> None:
        """A prompt gives the same in one step and cut into several, within the tolerance."""
        case, x = self.sequence(data, taken)
        run, cuts = case.bind(), cuts_of(data, len(x))
        whole = case.stage(run).prompt(x)
        self.near(case.stage(run).prompt(x, cuts), whole, 4 * self.bound(case), case=case, rows=len(x), cuts=cuts)

    @fewer
    @given(data=st.data())
    def test_bits_depend_on_no_cut(self, kernel: Kernel, taken: Taken, data: st.DataObject) -> None:
        """Where the kernel claims to be invariant, a prompt has the same bits in one step and cut into several."""
        claimed(kernel)
        case, x = self.sequence(data, taken)
        run, cuts = case.bind(), cuts_of(data, len(x))
        whole = case.stage(run).prompt(x)
        found = case.stage(run).prompt(x, cuts)
        same(found, whole, "the bits of the whole prompt", case=case, rows=len(x), cuts=cuts)

    @fewer
    @given(data=st.data())
    def test_sequences_of_a_step_do_not_see_each_other(self, taken: Taken, data: st.DataObject) -> None:
        """Sequences of any lengths that share steps give what each gives alone."""
        case = data.draw(st.sampled_from(taken.some(STATEFUL)))
        lengths = data.draw(st.lists(st.integers(1, self.largest // 3), min_size=2, max_size=3))
        prompts = [case.rows(length + 1, seed) for seed, length in enumerate(lengths)]
        run = case.bind()
        mixed, alone = case.stage(run), case.stage(run)
        first = mixed.step(*((i, 0, x[:-1]) for i, x in enumerate(prompts)))
        last = mixed.step(*((i, len(x) - 1, x[-1:]) for i, x in enumerate(prompts)))
        apart = [alone.prompt(x, [len(x) - 1], i) for i, x in enumerate(prompts)]
        wanted = torch.cat([*(y[:-1] for y in apart), *(y[-1:] for y in apart)])
        self.near(torch.cat([first, last]), wanted, 4 * self.bound(case), case=case, lengths=lengths)

    @fewer
    @given(data=st.data())
    def test_what_is_truncated_is_forgotten(self, taken: Taken, data: st.DataObject) -> None:
        """A sequence that goes back and another way gives what it gives where it never went the first way."""
        case, x = self.sequence(data, taken)
        back = data.draw(st.integers(0, len(x) - 1))
        other = case.rows(data.draw(st.integers(1, len(x) - back)) + 1, seed=1)
        run = case.bind()
        astray, straight = case.stage(run), case.stage(run)
        astray.prompt(x)
        if back:
            straight.prompt(x[:back])
        found, wanted = (
            torch.cat([stage.step((0, back, other[:-1])), stage.step((0, back + len(other) - 1, other[-1:]))])
            for stage in (astray, straight)
        )
        inputs = {"rows": len(x), "truncated_to": back, "then": len(other)}
        self.near(found, wanted, 4 * self.bound(case), case=case, **inputs)

    @fewer
    @given(data=st.data())
    def test_a_window_hides_what_is_older(self, taken: Taken, data: st.DataObject) -> None:
        """Where the state is sliding, a row sees itself and those before it up to the window, and none before those."""
        case, x = self.sequence(data, taken)
        window = data.draw(st.integers(1, len(x) - 1))
        run, oldest, inputs = case.bind(), len(x) - window, {"case": case, "rows": len(x), "window": window}
        plain, beyond, within = (
            case.stage(run, window).prompt(torch.cat([case.rows(len(x), 1)[:changed], x[changed:]]))[-1:]
            for changed in (0, oldest, min(oldest + 1, len(x) - 1))
        )
        self.near(beyond, plain, self.bound(case), **inputs)
        seen = window == 1 or not torch.equal(within, plain)
        require(seen, "a last row that depends on the oldest in the window", "one that doesn't", **inputs)


def cuts_of(data: st.DataObject, rows: int) -> list[int]:
    """Where a prompt of so many rows is cut, in one to six places or as many as there are."""
    return sorted(data.draw(st.sets(st.integers(1, rows - 1), min_size=1, max_size=6)))
