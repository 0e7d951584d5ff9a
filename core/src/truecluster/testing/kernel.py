"""The contract of kernels. Leaves are held to fp64, blocks to the reference forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import torch

from truecluster.api import Description, DeviceContext, Kernel, Role, Slot, WeightFormat
from truecluster.nn import Embedding, Linear, Norm

from ._host import HostDevice, Plain
from ._kernel_blocks import BlockTests
from ._lowered import bound, error, held_bytes, holding, packed_of, target_of, threads, unpacked
from ._missing import missing

ROWS = (1, 2, 3, 4, 7, 16, 33, 130)
"""Of a step: a token, a few sequences, a prompt's chunk, more than a tile of any kernel."""
SHAPES = ((96, 64), (33, 160), (5, 40), (130, 300))
"""``[out, in]``; some fit no tile and no quant group."""


class KernelContract(BlockTests):
    """Give ``kernel`` and ``formats``. What the kernel doesn't take is skipped; it must take something."""

    def tolerance(self, format: WeightFormat) -> float:
        """Bound of a linear's relative error with weights in ``format``; more where activations are rounded too."""
        return 1e-5

    @pytest.fixture
    def kernel(self) -> Kernel:
        """The kernel under test."""
        raise missing(self, "the fixture 'kernel'", "a Kernel")

    @pytest.fixture
    def formats(self) -> Sequence[WeightFormat]:
        """Formats that it takes matrices in, and that can pack; one that can't hold a shape is left out there."""
        raise missing(self, "the fixture 'formats'", "a list of WeightFormat objects that can pack")

    @pytest.fixture
    def device(self) -> DeviceContext:
        """What it computes on."""
        return HostDevice()

    @pytest.fixture(autouse=True)
    def _ready(self, kernel: Kernel, device: DeviceContext) -> Any:
        reason = kernel.unavailable()
        assert reason is None or reason.strip(), "a kernel that can't run must say why"
        if reason is not None:
            pytest.skip(reason)
        with torch.inference_mode(), device.scope():
            yield

    def take(self, kernel: Kernel, description: Description, format: WeightFormat, device: DeviceContext) -> Any:
        """The kernel's callable; skips the test where it doesn't take the description."""
        target = target_of(description, format, device)
        if not kernel.accepts(description, target):
            pytest.skip(f"{type(kernel).__name__} leaves {type(description).__name__} in {format.id} to others")
        return bound(kernel, description, target)

    def test_it_takes_something(self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext) -> None:
        assert formats, "give at least one format"
        every = [linear(96, 64, False), norm(64), Embedding(matrix("embed", 20, 64)), self.block()]
        for format in formats:
            assert any(kernel.accepts(one, target_of(one, format, device)) for one in every), format.id

    def test_what_it_does_not_know_is_left_to_others(self, kernel: Kernel, device: DeviceContext) -> None:
        class Foreign(Plain):
            id = "no-such-format"

        for description in (linear(96, 64, False), self.block(), Strange()):
            assert not kernel.accepts(description, target_of(description, Foreign(), device))

    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_linear_equals_fp64(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext, shape: tuple[int, int], bias: bool
    ) -> None:
        description = linear(*shape, bias)
        for format in holding(formats, description):
            target = target_of(description, format, device)
            run, x = self.take(kernel, description, format, device), rows(16, shape[1])
            before = x.clone()
            wanted = x.double() @ unpacked(description.weight, target).T
            if description.bias:
                wanted += unpacked(description.bias, target)
            y = device.download(run(device.upload(x)))
            assert (y.dtype, y.shape) == (torch.float32, wanted.shape)
            assert error(y, wanted) <= self.tolerance(format), format.id
            assert torch.equal(x, before), "the input was changed"

    def test_a_norm_equals_fp64(self, kernel: Kernel, device: DeviceContext) -> None:
        for width in (64, 40, 7):
            description = norm(width)
            run, x = self.take(kernel, description, Plain(), device), rows(9, width)
            wide = x.double()
            weight = unpacked(description.weight, target_of(description, Plain(), device))
            wanted = wide / (wide.square().mean(-1, keepdim=True) + description.eps).sqrt() * weight
            assert error(device.download(run(device.upload(x))), wanted) <= 1e-6

    def test_an_embedding_looks_rows_up(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext
    ) -> None:
        for format in formats:
            description = Embedding(matrix("head.output", 20, 96))
            run, ids = self.take(kernel, description, format, device), torch.tensor([3, 19, 0, 3], dtype=torch.int32)
            wanted = unpacked(description.weight, target_of(description, format, device))[ids.long()]
            assert error(device.download(run(device.upload(ids))), wanted) <= 1e-6

    def test_a_row_does_not_see_its_neighbours(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext
    ) -> None:
        """An outlier as a batch mate changes no bit, as it would with one scale for all activations."""
        for format in formats:
            run, x = self.take(kernel, linear(96, 160, True), format, device), rows(4, 160)
            alone = device.download(run(device.upload(x)))
            x[1] = x[1] * 1e4
            x[3, 5] = float("nan")
            beside = device.download(run(device.upload(x)))
            assert torch.equal(alone[[0, 2]], beside[[0, 2]]), format.id
            assert not beside[3].isfinite().any(), f"{format.id}: what is not a number must stay visible"

    @pytest.mark.parametrize("number", [1, 2])
    def test_bits_depend_on_no_row_count_and_no_threads(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext, number: int
    ) -> None:
        if not kernel.invariant:
            pytest.skip(f"{type(kernel).__name__} doesn't claim to be invariant")
        for format in formats:
            run, x = self.take(kernel, linear(33, 160, True), format, device), rows(max(ROWS), 160)
            whole = device.download(run(device.upload(x)))
            for count in ROWS:
                with threads(number):
                    part = device.download(run(device.upload(x[:count].clone())))
                assert torch.equal(part, whole[:count]), f"{format.id}: {count} rows on {number} threads"

    def test_resident_bytes_are_what_a_handle_holds(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext
    ) -> None:
        for format in formats:
            description = linear(192, 256, False)
            self.take(kernel, description, format, device)
            target = target_of(description, format, device)
            handle = kernel.prepare(description.weight, packed_of(description.weight, target), target)
            claimed = kernel.resident_bytes(format, description.weight.shape)
            assert claimed == pytest.approx(held_bytes(handle), rel=0.05), format.id


@attrs.frozen
class Strange(Description):
    """What no kernel has heard of."""


def matrix(key: str, out: int, width: int) -> Slot:
    """A slot of a matrix."""
    return Slot(key, Role.LINEAR, (out, width))


def linear(out: int, width: int, bias: bool) -> Linear:
    """A linear of its own."""
    return Linear(matrix("linear", out, width), Slot("linear.bias", Role.BIAS, (out,)) if bias else None)


def norm(width: int) -> Norm:
    """A norm of its own."""
    return Norm(Slot("norm", Role.NORM, (width,)), 1e-6)


def rows(count: int, width: int) -> torch.Tensor:
    """The same normally distributed fp32 rows every time."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count))
