"""The suite of formats catches formats that are wrong."""

from __future__ import annotations

import struct

import pytest
import torch

from truecluster.api import CheckpointError, Packed, PluginError, WeightFormat
from truecluster.testing.format import FormatContract


class Half(WeightFormat):
    """A right one: fp16 elements."""

    id = "half"

    @classmethod
    def from_id(cls, id):
        if id != cls.id:
            raise PluginError(f"only {cls.id}")
        return cls()

    def wire_bytes(self, shape):
        return 2 * torch.Size(shape).numel()

    def rows(self, packed, index):
        raw = packed.data.clone().view(torch.float16).view(packed.shape).float()
        return raw if len(packed.shape) == 1 else raw[index]

    def take(self, packed, index):
        rows = packed.data.view(packed.shape[0], -1)[index]
        return Packed(self.id, (len(index), *packed.shape[1:]), rows.flatten())

    def pack(self, weight, stats=None):
        if not weight.isfinite().all():
            raise CheckpointError("not finite")
        return Packed(self.id, tuple(weight.shape), weight.half().flatten().view(torch.uint8))


class Forgetful(Half):
    """Takes rows in their old order."""

    def take(self, packed, index):
        return super().take(packed, index.sort().values)


class Padded(Half):
    """Says a byte more than it packs."""

    def wire_bytes(self, shape):
        return super().wire_bytes(shape) + 1


class Silent(Half):
    """Packs infinities."""

    def pack(self, weight, stats=None):
        return Packed(self.id, tuple(weight.shape), weight.half().flatten().view(torch.uint8))


class Negated(Half):
    """Pack and rows agree with each other, and with nobody else."""

    def pack(self, weight, stats=None):
        return super().pack(-weight)

    def rows(self, packed, index):
        return -super().rows(packed, index)


class _Suite(FormatContract):
    made: type[WeightFormat] = Half

    @pytest.fixture
    def format(self):
        return self.made()

    def oracle(self, packed):
        return torch.tensor(struct.unpack(f"<{packed.data.numel() // 2}e", bytes(packed.data.tolist()))).view(
            packed.shape
        )


class SuiteOfHalf(_Suite):
    pass


class SuiteOfForgetful(_Suite):
    made = Forgetful


class SuiteOfPadded(_Suite):
    made = Padded


class SuiteOfSilent(_Suite):
    made = Silent


class SuiteOfNegated(_Suite):
    made = Negated


class SuiteWithoutFormat(FormatContract):
    pass


def test_a_right_format_passes(failures):
    assert failures(SuiteOfHalf) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (SuiteOfForgetful, "test_taken_rows_keep_their_values"),
        (SuiteOfPadded, "test_packed_bytes_are_flat_and_as_many_as_promised"),
        (SuiteOfSilent, "test_values_that_are_not_finite_are_refused"),
        (SuiteOfNegated, "test_unpacking_equals_the_oracle"),
    ],
)
def test_a_wrong_format_is_caught(failures, suite, caught):
    assert caught in failures(suite)


def test_a_suite_without_its_fixture_says_what_to_give(failures, capsys):
    assert "test_the_id_names_the_member" in failures(SuiteWithoutFormat)
    assert "SuiteWithoutFormat must give the fixture 'format'" in capsys.readouterr().out
