"""The processor under another name: it computes, and keeps its residual, in the half precision that it is told."""

from __future__ import annotations

import os
from collections.abc import Sequence

from truecluster.api import DeviceBackend, DeviceInfo, DType, NodeError
from truecluster.testing._host import HostDevice

VARIABLE = "TCPLUG_HALVES"


class HalfContext(HostDevice):
    """Not ``cpu``, so that kernels for processors leave it alone."""

    id, kind = "cpu:0", "half"

    def native(self, dtype: DType) -> bool:
        return dtype.value in ("fp32", os.environ.get(VARIABLE, "fp16"))

    def residual(self, compute: DType) -> DType:
        return compute


class HalfBackend(DeviceBackend):
    """One device, ``half``."""

    def detect(self) -> Sequence[DeviceInfo]:
        name = f"a processor that says it has {os.environ.get(VARIABLE, 'fp16')}"
        return [DeviceInfo(id="cpu:0", kind="half", name=name)]

    def open(self, id: str, threads: int | None = None) -> HalfContext:
        if id not in ("half", "cpu:0"):
            raise NodeError(f"device {id!r} doesn't exist; there is cpu:0")
        return HalfContext()
