"""The suite of kernels catches kernels that are wrong."""

from __future__ import annotations

import attrs
import pytest
import torch

from truecluster.nn import Batch, DecoderBlock, Embedding, Linear, Lowering, Norm, ReferenceKernel
from truecluster.testing._host import Plain
from truecluster.testing.kernel import KernelContract


class Rowwise(ReferenceKernel):
    """A right one: row by row, token by token, so that nothing depends on what else is there."""

    invariant = True

    def accepts(self, description, target):
        known = all(format.id == "plain" for format in target.formats.values())
        return known and type(description) in (Linear, Norm, Embedding, DecoderBlock)

    def bind(self, description, handles, target):
        if isinstance(description, DecoderBlock):
            named = {("reference", key): handle for key, handle in handles.items()}
            return self.tokenwise(Lowering(target).bind(description, named))
        return self.rowwise(super().bind(description, handles, target))

    def rowwise(self, run):
        return lambda x: torch.cat([run(row[None]) for row in x])

    def tokenwise(self, run):
        def block(hidden, batch, state):
            rows = enumerate(batch.rows.tolist())
            one_by_one = [single(batch, r, first + i) for r, (first, count, _, _) in rows for i in range(count)]
            return torch.cat([run(hidden[i : i + 1], one, state) for i, one in one_by_one])

        return block


def single(batch, row, token):
    """The token's number, and the step that holds nothing but it."""
    _, _, _, slot = batch.rows[row].tolist()
    tables = {key: (cos[token : token + 1], sin[token : token + 1]) for key, (cos, sin) in batch.tables.items()}
    at = torch.tensor([[0, 1, int(batch.positions[token]), slot]], dtype=torch.int32)
    return token, Batch(at, batch.pages[row : row + 1], batch.positions[token : token + 1], tables)


class SharedScale(Rowwise):
    """Rounds activations with one scale for the whole step."""

    def rowwise(self, run):
        def rounded(x):
            if not x.is_floating_point():
                return run(x)
            scale = x.abs().max() / 32767
            return super(SharedScale, self).rowwise(run)((x / scale).round() * scale)

        return rounded


class Biasless(Rowwise):
    """Leaves out the bias."""

    def bind(self, description, handles, target):
        if isinstance(description, Linear):
            description = attrs.evolve(description, bias=None)
        return super().bind(description, handles, target)


class Boasting(Rowwise):
    """Claims that bits don't depend on the number of rows, where its sums run in another order."""

    def rowwise(self, run):
        return lambda x: run(x) * (1 + 1e-6 * (len(x) > 2)) if x.is_floating_point() else run(x)


class Hiding(Rowwise):
    """Turns what is not a number into zero."""

    def rowwise(self, run):
        return lambda x: super(Hiding, self).rowwise(run)(x).nan_to_num()


class Lying(Rowwise):
    """Plans with half of what it holds."""

    def resident_bytes(self, format, shape):
        return super().resident_bytes(format, shape) // 2


class Grasping(Rowwise):
    """Takes formats that it can't know."""

    def accepts(self, description, target):
        return type(description) in (Linear, Norm, Embedding, DecoderBlock)


class Mixing(Rowwise):
    """Reads every sequence through the pages of the first."""

    def tokenwise(self, run):
        block = super().tokenwise(run)
        return lambda hidden, batch, state: block(
            hidden, attrs.evolve(batch, pages=batch.pages[:1].expand_as(batch.pages)), state
        )


class Unmasked(Rowwise):
    """Sees every cached token where only the latest may be seen."""

    def tokenwise(self, run):
        class Open:
            def __init__(self, state):
                self.arrays, self.sliding = state.arrays, None

        block = super().tokenwise(run)
        return lambda hidden, batch, state: block(hidden, batch, Open(state))


class Idle(Rowwise):
    """Takes nothing."""

    def accepts(self, description, target):
        return False


class Mute(Rowwise):
    """Can't run, and doesn't say why."""

    def unavailable(self):
        return " "


class _Suite(KernelContract):
    made: type = Rowwise

    @pytest.fixture
    def kernel(self):
        return self.made()

    @pytest.fixture
    def formats(self):
        return [Plain()]


class _Unaligned(Plain):
    """`Plain` that reads bytes from odd addresses too."""

    def rows(self, packed, index):
        return super().rows(attrs.evolve(packed, data=packed.data.clone()), index)


def suite_of(double):
    """A suite by the name that the recorder looks for."""
    formats = pytest.fixture(lambda self: [_Unaligned()])
    return type(f"SuiteOf{double.__name__}", (_Suite,), {"made": double, "formats": formats, "__module__": __name__})


DOUBLES = {
    SharedScale: "test_a_row_does_not_see_its_neighbours",
    Biasless: "test_a_linear_equals_fp64",
    Boasting: "test_bits_depend_on_no_row_count_and_no_threads",
    Hiding: "test_a_row_does_not_see_its_neighbours",
    Lying: "test_resident_bytes_are_what_a_handle_holds",
    Grasping: "test_what_it_does_not_know_is_left_to_others",
    Mixing: "test_a_ragged_step_equals_one_sequence_at_a_time",
    Unmasked: "test_a_block_equals_the_reference",
    Idle: "test_it_takes_something",
    Mute: "test_it_takes_something",
}
globals().update({f"SuiteOf{double.__name__}": suite_of(double) for double in (Rowwise, *DOUBLES)})


def test_a_right_kernel_passes(failures):
    assert failures(globals()["SuiteOfRowwise"]) == set()


@pytest.mark.parametrize(("double", "caught"), DOUBLES.items(), ids=lambda value: getattr(value, "__name__", None))
def test_a_wrong_kernel_is_caught(failures, double, caught):
    assert failures(globals()[f"SuiteOf{double.__name__}"], caught) == {caught}


def test_what_is_not_given_is_asked_for():
    with pytest.raises(NotImplementedError, match="kernel"):
        KernelContract.kernel.__wrapped__(KernelContract())
