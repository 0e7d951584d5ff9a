"""The contract of kernels. Leaves are held to fp64, composites to the reference forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import attrs
import pytest

from truecluster.api import DeviceContext, Kernel, WeightFormat

from ._contract import Contract, Installed
from ._host import HostDevice
from ._kernel_cases import DTYPES, Case, Taken
from ._kernel_catalogue import EVERYTHING
from ._kernel_formats import installed_formats
from ._kernel_handles import HandleTests
from ._kernel_state import StateTests
from ._kernel_strangers import STRANGERS, Elsewhere, Foreign
from ._kernel_values import Example
from ._lowered import holds
from .rules import require

__all__ = ["Example", "KernelContract"]


class KernelContract(StateTests, HandleTests, Contract):
    """Name ``offer``. Of the descriptions in ``nn`` the suite probes which the kernel takes, and skips the others.

    They are offered with matrices in every installed format that can pack, and in all dtypes. A kernel of another
    device gives the fixture ``device``, one of another format names it in ``more_formats`` or gives the fixture
    ``formats``, one of descriptions of its own gives ``examples``; one whose activations are rounded gives
    ``tolerance``.
    """

    KIND = "kernel"
    more_formats: ClassVar[Sequence[str]] = ()
    """Ids of installed formats, beyond those that recipes name."""

    @pytest.fixture
    def kernel(self, installed: Installed) -> Kernel:
        """The kernel under test."""
        made: Kernel = installed.target()
        return made

    @pytest.fixture
    def formats(self) -> Sequence[WeightFormat]:
        """Formats that matrices are offered in; they can pack, and have ids of their own."""
        return installed_formats(self.more_formats)

    @pytest.fixture
    def device(self) -> DeviceContext:
        """What it computes on, open."""
        return HostDevice()

    @pytest.fixture
    def taken(self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext) -> Iterator[Taken]:
        """What it takes; skips where it can't run here."""
        reason = kernel.unavailable()
        if reason is not None:
            pytest.skip(reason)
        with device.scope():
            yield Taken(kernel, formats, device)

    def test_it_runs_here_or_says_why(self, kernel: Kernel) -> None:
        """`unavailable` is None where the kernel can run, else a sentence for the user."""
        reason = kernel.unavailable()
        holds = reason is None or (isinstance(reason, str) and bool(reason.strip()))
        require(holds, "None, or why this machine can't run the kernel", repr(reason))

    def test_it_says_what_it_works_with(self, taken: Taken) -> None:
        """`details` is a text of one line at most, which `tc doctor` shows."""
        told = taken.kernel.details()
        require(isinstance(told, str) and "\n" not in told, "a text of one line, or an empty one", repr(told))

    def test_it_takes_something(self, taken: Taken) -> None:
        """The kernel takes a description of the kit's catalogue, or one of the author's ``examples``."""
        every = (*EVERYTHING, *(example.description for example in self.examples))
        expected = "that something is accepted; give 'formats', 'more_formats', 'device' or 'examples' to the contract"
        offered = f"{', '.join(sorted({type(one).__name__ for one in every}))} on {taken.device.kind!r}"
        require(bool(taken.of(every)), expected, "nothing is", offered=offered, formats=[f.id for f in taken.formats])

    def test_a_foreign_format_is_left_to_others(self, taken: Taken) -> None:
        """A kernel takes no matrix in a format that it doesn't know: formats are known by their id."""
        for description in (*EVERYTHING, *(example.description for example in self.examples)):
            if any(len(slot.shape) > 1 for slot in description.slots()):
                refused(Case(taken.kernel, description, Foreign(), taken.device, DTYPES[0]))

    def test_a_foreign_description_is_left_to_others(self, taken: Taken) -> None:
        """A kernel takes no class that it doesn't know, such as a subclass, which may compute something else."""
        for format in taken.formats:
            for description in (one for one in STRANGERS if holds(format, one)):
                refused(Case(taken.kernel, description, format, taken.device, DTYPES[0]))

    def test_a_foreign_device_is_left_to_others(self, taken: Taken) -> None:
        """A kernel takes nothing for a device of a kind that it doesn't know."""
        device = Elsewhere()
        for case in taken.of((*EVERYTHING, *(example.description for example in self.examples))):
            refused(attrs.evolve(case, device=device), device=device.kind)

    def test_accepting_depends_on_nothing_else(self, taken: Taken) -> None:
        """`accepts` answers the same again after the kernel has prepared and bound: it is asked early."""
        before = taken.of(EVERYTHING)
        for case in before:
            case.bind()
        answers = [case.kernel.accepts(case.description, case.target) for case in before]
        came = [case for case, again in zip(before, answers, strict=True) if not again]
        require(not came, "each description accepted as before", f"{came[:3]} are not")


def refused(case: Case, **inputs: object) -> None:
    """The kernel must leave the case to others."""
    accepted = case.kernel.accepts(case.description, case.target)
    require(not accepted, "that it is left to others", "it is accepted", case=case, **inputs)
