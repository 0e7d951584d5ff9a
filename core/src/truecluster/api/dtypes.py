"""The element types that cross the public API, without torch."""

from __future__ import annotations

from enum import Enum


class DType(str, Enum):
    """An element type. The value is its name in formats, messages and options."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT32 = "int32"
    UINT8 = "uint8"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return {"fp32": 4, "fp16": 2, "bf16": 2, "int32": 4, "uint8": 1}[self.value]

    @property
    def is_float(self) -> bool:
        """Whether it is fp32, fp16 or bf16."""
        return self in (DType.FP32, DType.FP16, DType.BF16)

    def wider(self, other: DType) -> DType:
        """The narrowest float type that holds every value of both; fp16 and bf16 meet in fp32."""
        return self if self is other else DType.FP32
