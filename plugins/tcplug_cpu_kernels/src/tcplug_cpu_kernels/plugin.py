"""Offers the CPU kernel."""

from truecluster.api import KernelSpec, hookimpl


@hookimpl
def truecluster_kernels():  # type: ignore[no-untyped-def]
    yield KernelSpec(
        name="cpu",
        target="tcplug_cpu_kernels.kernel:CpuKernel",
        summary="Linears and whole decoder blocks in C, for fp32, fp16, bf16, int8, int4 and GGUF weights.",
        rank=10,
    )
