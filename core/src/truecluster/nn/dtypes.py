"""`DType` to torch and back."""

from __future__ import annotations

import torch

from truecluster.api import DType

_TORCH = {
    DType.FP32: torch.float32,
    DType.FP16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.INT32: torch.int32,
    DType.UINT8: torch.uint8,
}


def torch_dtype(dtype: DType) -> torch.dtype:
    """The torch dtype of the same name."""
    return _TORCH[dtype]
