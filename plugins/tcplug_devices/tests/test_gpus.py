"""What GPUs are asked and told, against stand-ins for torch's calls: no GPU is here. Their words are torch's own."""

from __future__ import annotations

import platform
import threading
from types import SimpleNamespace

import pytest
import torch
from tcplug_devices import cuda, mps
from tcplug_devices.cpu import CpuBackend
from tcplug_devices.cuda import CudaBackend, CudaContext
from tcplug_devices.host import ran_out
from tcplug_devices.mps import MpsBackend, MpsContext

from truecluster.api import DType, OutOfMemory

GB = 10**9
FLOATS = (DType.FP32, DType.FP16, DType.BF16)


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs that remember whose memory was asked for."""
    asked = []

    def info(device):
        asked.append(str(device))
        return 5 * GB, 8 * GB

    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(name="a GPU", total_memory=8 * GB)
    )
    monkeypatch.setattr(torch.cuda, "mem_get_info", info)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * GB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1 * GB)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: SimpleNamespace(device=device))
    return asked


def test_the_second_gpu_is_the_second_gpu(gpus):
    context = CudaBackend().open("cuda:1", threads=1)
    assert (context.id, context.kind) == ("cuda:1", "cuda")
    assert context._stream.device == torch.device("cuda:1")
    gpus.clear()
    assert context.memory() == (8 * GB, 7 * GB)  # what torch holds without using it is free to it
    assert gpus == ["cuda:1"]


def test_the_kind_alone_is_the_first_gpu(gpus):
    assert CudaBackend().open("cuda").id == "cuda:0"


@pytest.mark.parametrize(
    ("capability", "native"),
    [
        ((6, 1), [DType.FP32]),
        ((7, 5), [DType.FP32, DType.FP16]),
        ((8, 0), list(FLOATS)),
        ((9, 0), list(FLOATS)),
    ],
    ids=["GTX 1080", "RTX 2080", "A100", "H100"],
)
def test_halves_are_native_where_a_gpu_has_units_for_them(gpus, monkeypatch, capability, native):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    context = CudaContext("cuda:0", None)
    assert [dtype for dtype in FLOATS if context.native(dtype)] == native
    assert [context.residual(dtype) for dtype in native] == native


@pytest.fixture
def mac(monkeypatch):
    """A Mac with 16 GB, of which Metal would use 11."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 11 * GB)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 2 * GB)
    monkeypatch.setattr(mps, "host_memory", lambda: (16 * GB, 14 * GB))


def test_a_mac_has_what_metal_recommends_less_what_it_uses(mac):
    [info] = MpsBackend().detect()
    assert (info.id, info.kind, info.total, info.free) == ("mps", "mps", 11 * GB, 9 * GB)


def test_a_macs_memory_is_the_machines_too(mac, monkeypatch):
    """Unified memory: what other programs use is gone for Metal."""
    monkeypatch.setattr(mps, "host_memory", lambda: (16 * GB, 4 * GB))
    assert MpsBackend().open("mps").memory() == (11 * GB, 4 * GB)


def test_more_than_recommended_leaves_nothing(mac, monkeypatch):
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 12 * GB)
    assert MpsBackend().open("mps").memory() == (11 * GB, 0)


@pytest.mark.parametrize(("version", "native"), [("13.6", False), ("14.0", True), ("26.1", True), ("", False)])
def test_a_mac_has_bf16_from_macos_14_on(monkeypatch, version, native):
    monkeypatch.setattr(platform, "mac_ver", lambda: (version, ("", "", ""), ""))
    context = MpsContext(None)
    assert context.native(DType.BF16) is native
    assert [context.native(dtype) for dtype in (DType.FP32, DType.FP16)] == [True, True]


def test_elsewhere_there_is_no_mps(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert MpsBackend().detect() == []


def test_one_thread_at_a_time_computes_on_a_mac():
    """Two stages of a coordinator have a thread each, and a context each."""
    taken = []
    with MpsContext(None).turn():
        other = threading.Thread(target=lambda: taken.append(mps.TURN.acquire(blocking=False)))
        other.start()
        other.join()
    assert taken == [False]
    with CpuBackend().open("cpu").turn(), CpuBackend().open("cpu").turn():
        """Processors stand any number of threads."""


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 7.9 GiB"
        ),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError(
            "MPS backend out of memory (MPS allocated: 9.06 GB, max allowed: 9.07 GB). Tried to allocate 1 GB"
        ),
        RuntimeError("Invalid buffer size: 24.00 GB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
    ids=str,
)
def test_running_out_of_memory_is_recognized(error):
    assert ran_out(error)


def test_other_errors_stay_what_they_are():
    assert not ran_out(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"), CpuBackend().open("cpu").scope():
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_running_out_of_memory_says_how_much_there_is_and_what_to_do():
    """4 PB, which no machine has."""
    with (
        pytest.raises(
            OutOfMemory, match=r"^cpu ran out of memory: \d+\.\d MB of \d+\.\d MB are free .*smaller --quant"
        ),
        CpuBackend().open("cpu").scope(),
    ):
        torch.empty(1 << 50)


def test_a_gpu_that_torch_cannot_use_is_explained(monkeypatch):
    monkeypatch.setattr(cuda, "has_driver", lambda: False)
    assert CudaBackend().absent() is None
    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for version, words in ((None, "was built without CUDA and ROCm; install a build"), ("13.0", "upgrade the driver")):
        monkeypatch.setattr(torch.version, "cuda", version)
        assert words in CudaBackend().absent()


def test_a_gpu_that_is_there_is_not_missed(gpus):
    assert CudaBackend().absent() is None
