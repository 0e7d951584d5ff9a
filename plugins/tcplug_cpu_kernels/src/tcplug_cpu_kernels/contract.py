"""The contract of the kernel: on the best instruction set of this machine, in plain C, and over GGUF's blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
import torch

from truecluster.api import Kernel, Packed, PluginError, WeightFormat
from truecluster.testing.kernel import KernelContract

from .kernel import CpuKernel
from .native import BEST, library, path

FLOATS = ("fp32", "fp16", "bf16")


class Ggml(WeightFormat):
    """ggml's blocks of 32, as the package gguf makes and reads them; the plugin that offers them can't pack."""

    def __init__(self, id: str) -> None:
        gguf = pytest.importorskip("gguf", reason="the package gguf makes the blocks, and isn't installed")
        self.id, self._quants = id, gguf.quants
        self._kind = gguf.GGMLQuantizationType[id.removeprefix("gguf.").upper()]

    @classmethod
    def from_id(cls, id: str) -> Ggml:
        raise PluginError(f"made for tests, not by name: {id}")

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        if shape[-1] % 32:
            raise PluginError(f"{self.id} holds rows of multiples of 32 elements, not {shape}")
        return self.pack(torch.zeros(shape)).data.numel()

    def rows(self, packed: Packed, index: torch.Tensor | slice) -> torch.Tensor:
        blocks = packed.data.clone().view(packed.shape[0], -1).numpy()
        return torch.from_numpy(self._quants.dequantize(blocks, self._kind))[index]

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        raise PluginError("a kernel takes no packed rows")

    def pack(self, weight: torch.Tensor, stats: object = None) -> Packed:
        blocks: Any = self._quants.quantize(weight.float().numpy(), self._kind)
        return Packed(self.id, tuple(weight.shape), torch.from_numpy(blocks).flatten().view(torch.uint8))


class TestCpuKernel(KernelContract):
    """Over installed formats."""

    offer = "cpu"
    more_formats: ClassVar[Sequence[str]] = ("int4.g32.sym", "int4.g64.sym", "int4.g128.asym")
    level: ClassVar[int] = BEST

    def tolerance(self, format: WeightFormat) -> float:
        """Over weights that aren't floats, activations are rounded to 15 or 16 bits."""
        return 2e-6 if format.id in FLOATS else 2e-4

    @pytest.fixture
    def kernel(self) -> Iterator[Kernel]:
        """On the instruction set of this class."""
        if path() is None:
            yield CpuKernel()
            return
        library().tc_use(self.level)
        yield CpuKernel()
        library().tc_use(BEST)


class TestPlainC(TestCpuKernel):
    """As on a machine without AVX2."""

    largest = 40
    more_formats = ("int4.g32.sym",)
    level = 0


class TestGgufBlocks(TestCpuKernel):
    """Over GGUF's blocks."""

    largest = 130

    @pytest.fixture
    def formats(self) -> Sequence[WeightFormat]:
        """The blocks that the library reads."""
        return [BLOCKS.setdefault(id, Ggml(id)) for id in ("gguf.q8_0", "gguf.q4_0", "gguf.q4_1")]


BLOCKS: dict[str, Ggml] = {}
"""Made once, so that what was packed in them serves all tests."""
