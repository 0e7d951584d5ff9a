"""What the contract doesn't say: memory of control groups, absent drivers, ranks, threads."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
import torch
from tcplug_devices import cuda, host
from tcplug_devices.cgroup import room
from tcplug_devices.cpu import CpuBackend
from tcplug_devices.cuda import CudaBackend
from tcplug_devices.plugin import truecluster_devices

from truecluster.api import DType, NodeError


def test_auto_prefers_cuda_then_mps_then_cpu():
    specs = sorted(truecluster_devices(), key=lambda spec: -spec.rank)
    assert [spec.name for spec in specs] == ["cuda", "mps", "cpu"]


def test_declaring_imports_no_torch():
    code = "import sys, tcplug_devices.plugin; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_a_driver_there_is_no_cuda_device(monkeypatch):
    monkeypatch.setattr(cuda, "has_driver", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("torch was asked"))
    assert CudaBackend().detect() == []
    with pytest.raises(NodeError, match="device 'cuda:0' doesn't exist; there is no cuda device on this machine"):
        CudaBackend().open("cuda:0")


def test_a_driver_that_torch_cannot_use_is_no_device(monkeypatch):
    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert CudaBackend().detect() == []


def test_cuda_devices_are_described_and_a_busy_one_has_unknown_memory(monkeypatch):
    class Properties:
        name, total_memory = "a GPU", 8 << 30

    def busy(index):
        if index == 1:
            raise RuntimeError("all CUDA-capable devices are busy or unavailable")
        return 5 << 30, 8 << 30

    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", busy)
    assert [(d.id, d.total, d.free) for d in CudaBackend().detect()] == [
        ("cuda:0", 8 << 30, 5 << 30),
        ("cuda:1", 8 << 30, None),
    ]
    with pytest.raises(NodeError, match="'cuda:7' doesn't exist; there is cuda:0, cuda:1"):
        CudaBackend().open("cuda:7")


def test_half_precision_is_not_native_on_a_processor():
    assert [CpuBackend().open("cpu").native(dtype) for dtype in (DType.FP16, DType.BF16)] == [False, False]


def test_no_threads_are_refused():
    with pytest.raises(NodeError, match="0 threads can't compute"):
        CpuBackend().open("cpu", threads=0)


def test_a_scope_without_threads_leaves_them_alone():
    before = torch.get_num_threads()
    with CpuBackend().open("cpu").scope():
        assert torch.get_num_threads() == before


def group(folder, limit, usage, stat, names=("memory.max", "memory.current")):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(stat)


def test_a_group_of_version_2_and_its_parents(tmp_path):
    """File pages that would go when needed are free: 1000 - 700 + 100."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/outer/inner\n")
    mount = tmp_path / "sys/fs/cgroup"
    group(mount / "outer", 5000, 900, "anon 1\ninactive_file 0\n")
    group(mount / "outer/inner", 1000, 700, "anon 1\ninactive_file 100\n")
    assert room(tmp_path) == [(1000, 400), (5000, 4100)]
    (mount / "outer/inner/memory.max").write_text("max\n")
    assert room(tmp_path) == [(5000, 4100)]


def test_a_group_of_version_1(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("5:cpu:/a\n4:memory:/\n")
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    group(tmp_path / "sys/fs/cgroup/memory", 1000, 1200, "total_inactive_file 50\n", names)
    assert room(tmp_path) == [(1000, 0)]
    group(tmp_path / "sys/fs/cgroup/memory", 9223372036854771712, 5, "total_inactive_file 50\n", names)
    assert room(tmp_path) == []


def test_without_control_groups_the_machine_counts(tmp_path, monkeypatch):
    assert room(tmp_path) == []
    monkeypatch.setattr(host, "room", list)
    total, free = host.memory()
    assert total == psutil.virtual_memory().total
    assert 0 < free <= total


def test_a_tight_group_bounds_the_processor(monkeypatch):
    monkeypatch.setattr(host, "room", lambda: [(3 << 20, 1 << 20)])
    assert CpuBackend().open("cpu").memory() == (3 << 20, 1 << 20)
