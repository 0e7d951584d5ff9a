"""Offers the devices of this machine."""

from truecluster.api import DeviceSpec, hookimpl


@hookimpl
def truecluster_devices():  # type: ignore[no-untyped-def]
    yield DeviceSpec(name="cuda", target="tcplug_devices.cuda:CudaBackend", rank=30, summary="NVIDIA and AMD GPUs.")
    yield DeviceSpec(name="mps", target="tcplug_devices.mps:MpsBackend", rank=20, summary="The GPU of Apple silicon.")
    yield DeviceSpec(
        name="cpu", target="tcplug_devices.cpu:CpuBackend", rank=10, summary="Processor cores; any machine."
    )
