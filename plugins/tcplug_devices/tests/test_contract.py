"""The devices keep the contract of devices; what isn't on this machine is skipped."""

from __future__ import annotations

from truecluster.testing.device import DeviceContract


class TestCpu(DeviceContract):
    offer = "cpu"


class TestCuda(DeviceContract):
    offer = "cuda"


class TestMps(DeviceContract):
    offer = "mps"
