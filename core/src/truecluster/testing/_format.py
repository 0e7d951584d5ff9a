"""What the rules of weight formats start from: the member under test, and what its author says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import attrs
import pytest
import torch

from truecluster.api import Packed, PluginError, WeightFormat

from ._contract import Contract, Installed
from ._missing import missing
from ._values import Weights

ERROR_BELOW, NEGLIGIBLE_BELOW = 1.0, 1e-4


class FormatUnderTest(Contract):
    """The member under test, and what its author says of it."""

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
    """Bound of the relative squared error of each row that was packed; below 1, which is that of zeros."""
    negligible: ClassVar[float] = 2.0**-126
    """An error of one weight that never counts, 1e-4 at most: formats may flush what is smaller to zero."""

    def __init_subclass__(cls) -> None:
        """Raises `ValueError` for bounds that hold nothing."""
        super().__init_subclass__()
        for name, most in (("error", ERROR_BELOW), ("negligible", NEGLIGIBLE_BELOW)):
            if not 0 <= getattr(cls, name) < most:
                raise ValueError(f"{cls.__name__}: {name} is {getattr(cls, name)!r}; give a bound below {most:g}")

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
