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
