"""The kernel, held to the contract: on the best instruction set of this machine, and in plain C."""

from __future__ import annotations

import pytest
from tcplug_cpu_kernels.kernel import CpuKernel
from tcplug_cpu_kernels.native import BEST, library, path

from truecluster.testing.kernel import KernelContract

TOLERANCES = {"fp32": 1e-6, "fp16": 1e-6, "bf16": 1e-6}
"""Activations are rounded to 15 or 16 bits over the others."""


class Contract(KernelContract):
    ids = (
        *TOLERANCES,
        "int8",
        "int4.g32.asym",
        "int4.g64.sym",
        "int4.g128.asym",
        "gguf.q4_0",
        "gguf.q4_1",
        "gguf.q8_0",
    )
    level = BEST

    def tolerance(self, format):
        return TOLERANCES.get(format.id, 1e-4)

    @pytest.fixture
    def kernel(self):
        if path() is None:
            yield CpuKernel()
            return
        library().tc_use(self.level)
        yield CpuKernel()
        library().tc_use(BEST)

    @pytest.fixture
    def formats(self, format_of):
        return [format_of(id) for id in self.ids]


class TestBest(Contract):
    pass


class TestPlain(Contract):
    ids = ("fp16", "int8", "int4.g32.sym", "gguf.q4_1", "gguf.q8_0")
    level = 0
