from __future__ import annotations

import pytest
from tcplug_devices.cpu import CpuBackend
from tcplug_devices.cuda import CudaBackend
from tcplug_devices.mps import MpsBackend

from truecluster.testing.device import DeviceContract


class TestCpu(DeviceContract):
    host = True

    @pytest.fixture
    def backend(self):
        return CpuBackend()


class TestCuda(DeviceContract):
    @pytest.fixture
    def backend(self):
        return CudaBackend()


class TestMps(DeviceContract):
    @pytest.fixture
    def backend(self):
        return MpsBackend()
