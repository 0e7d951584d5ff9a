"""The suite of kernels catches kernels that are wrong, each by one method."""

from __future__ import annotations

import pytest
import torch
from doubles import Double
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_doubles import (
    Aligned,
    Anywhere,
    Biasless,
    Boasting,
    Caching,
    Careless,
    Clamped,
    Consuming,
    Dangling,
    Doubling,
    Emptyless,
    Epsless,
    Forgetful,
    Grasping,
    HalfHead,
    HalfRotary,
    Halves,
    Hiding,
    Idle,
    Lying,
    Mixing,
    Moody,
    Mute,
    Overwriting,
    Remembering,
    Restless,
    Reusing,
    Right,
    Rowwise,
    Scribbling,
    SharedScale,
    Shifted,
    Silent,
    Stale,
    Strided,
    Threaded,
    Twice,
    Unmasked,
    Widening,
    Wrong,
)

from truecluster.api import KernelSpec, Role, Slot
from truecluster.nn import Linear
from truecluster.testing._contract import Installed
from truecluster.testing._host import Plain
from truecluster.testing.kernel import Example, KernelContract
from truecluster.testing.rules import ranging

PLAIN = Plain()
SUITE = KernelContract


def hurried(method):
    """The same over fewer inputs: the doubles are wrong for most."""
    return settings(ranging, max_examples=12)(given(data=st.data())(method.hypothesis.inner_test))


class _Suite(KernelContract):
    largest = 40
    made: type

    @pytest.fixture
    def installed(self):
        return Installed(KernelSpec(name="double", target="double:Double", rank=1), self.made)

    @pytest.fixture
    def formats(self):
        return [PLAIN]


for name in dir(KernelContract):
    if hasattr(getattr(KernelContract, name), "hypothesis"):
        setattr(_Suite, name, hurried(getattr(KernelContract, name)))


def suite_of(double, **given):
    """A suite by the name that the recorder looks for."""
    suite = type(f"SuiteOf{double.__name__}", (_Suite,), {"made": double, **given, "__module__": __name__})
    globals()[suite.__name__] = suite
    return suite


def example(rows):
    return (torch.randn(rows, 40, generator=torch.Generator().manual_seed(rows)),)


TWICE = Example(Twice(Linear(Slot("linear", Role.LINEAR, (17, 40)))), example)
RIGHT = (suite_of(Right), suite_of(Rowwise), suite_of(Halves), suite_of(Doubling, examples=(TWICE,)))
DOUBLES = {
    "test_it_runs_here_or_says_why": Double(suite_of(Mute), "why this machine can't"),
    "test_it_says_what_it_works_with": Double(suite_of(Silent), "one line, or an empty one\ncame: None"),
    "test_it_takes_something": Double(suite_of(Idle), "give 'formats', 'more_formats', 'device' or 'examples'"),
    "test_a_foreign_format_is_left_to_others": Double(suite_of(Grasping), r"accepted\ncase: Linear .* no-such-format"),
    "test_a_foreign_description_is_left_to_others": Double(suite_of(Careless), r"accepted\ncase: OtherLinear"),
    "test_a_foreign_device_is_left_to_others": Double(suite_of(Anywhere), "device: no-such-kind"),
    "test_accepting_depends_on_nothing_else": Double(suite_of(Moody), r"Linear \[130, 300\] .* are not"),
    "test_results_have_the_promised_dtype": Double(suite_of(Widening), r"residual, bf16\ncame: torch.float32"),
    "test_a_linear_equals_fp64": Double(suite_of(Shifted), r"Linear \[17, 40\] in plain.*\nrows: 1$"),
    "test_a_bias_is_added_to_every_row": Double(suite_of(Biasless), r"row 1 differing[\s\S]*rows: 2$"),
    "test_a_head_works_in_fp32": Double(suite_of(HalfHead), r"Linear .* compute bf16"),
    "test_a_norm_equals_fp64": Double(suite_of(Epsless), r"Norm \[7\] .*\n.*\nrows: 1$"),
    "test_an_embedding_looks_rows_up": Double(suite_of(Clamped), r"ids: \[16, 0\]"),
    "test_a_composite_equals_the_reference": Double(suite_of(HalfRotary), r"DecoderBlock .*\nrows: \d$"),
    "test_examples_equal_the_reference": Double(suite_of(Wrong, examples=(TWICE,)), r"Twice \[17, 40\]"),
    "test_a_row_does_not_see_its_neighbours": Double(suite_of(SharedScale), r"beside row \d times 10000[\s\S]*rows: 2"),
    "test_what_is_not_a_number_stays_visible": Double(suite_of(Hiding), r"no finite element in row \d\ncame: 17"),
    "test_bits_depend_on_no_row_count": Double(suite_of(Boasting), r"in a step of 3\n"),
    "test_bits_depend_on_no_threads": Double(suite_of(Threaded), r"rows: 1\nthreads: 2"),
    "test_a_call_leaves_nothing_behind": Double(suite_of(Remembering), r"rows: 1\nbetween: 1, of size"),
    "test_a_result_outlives_the_next_call": Double(suite_of(Reusing), "the first result as it was"),
    "test_the_input_is_not_changed": Double(suite_of(Overwriting), "the input as it was given"),
    "test_no_rows_give_no_rows": Double(suite_of(Emptyless), "stack expects"),
    "test_rows_may_lie_anyhow": Double(suite_of(Strided), "lying: strided"),
    "test_a_prompt_may_be_cut_anywhere": Double(suite_of(Forgetful), r"rows: 2\ncuts: \[1\]"),
    "test_bits_depend_on_no_cut": Double(suite_of(Restless), r"bits of the whole prompt[\s\S]*rows: 2\ncuts: \[1\]"),
    "test_sequences_of_a_step_do_not_see_each_other": Double(suite_of(Mixing), r"lengths: \[1, 1\]"),
    "test_what_is_truncated_is_forgotten": Double(suite_of(Stale), r"truncated_to: 0"),
    "test_a_window_hides_what_is_older": Double(suite_of(Unmasked), r"rows: 2\nwindow: 1"),
    "test_resident_bytes_are_what_a_handle_holds": Double(suite_of(Lying), r"2720 B, as held\ncame: 1360 B"),
    "test_packed_bytes_are_only_read": Double(suite_of(Scribbling), "the bytes as they were given"),
    "test_packed_bytes_may_lie_in_a_mapped_file": Double(suite_of(Aligned), r"4e-05[\s\S]*case: Linear \[17, 40\]"),
    "test_packed_bytes_may_go_once_a_handle_is_made": Double(suite_of(Dangling), "while the caller holds"),
    "test_equal_keys_are_not_equal_tensors": Double(suite_of(Caching), "other weights under the same keys"),
    "test_one_handle_serves_all_that_read_it": Double(suite_of(Consuming), "another callable of the same handle"),
}
