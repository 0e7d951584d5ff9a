"""Offers the device ``half``: put ``tests/plugins`` on PYTHONPATH, and the dtype that it has into TCPLUG_HALVES."""

from truecluster.api import DeviceSpec, hookimpl


@hookimpl
def truecluster_devices():  # type: ignore[no-untyped-def]
    yield DeviceSpec(name="half", target="tcplug_halves.half:HalfBackend", summary="A processor that has halves.")
