"""Offers the device ``slow``: put ``tests/plugins`` on PYTHONPATH."""

from truecluster.api import DeviceSpec, hookimpl


@hookimpl
def truecluster_devices():  # type: ignore[no-untyped-def]
    yield DeviceSpec(name="slow", target="tcplug_slow.slow:SlowBackend", rank=-1, summary="A processor that dawdles.")
