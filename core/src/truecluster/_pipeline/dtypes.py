"""Which of its dtypes a device computes in.

Three are told apart: *weights* lie in a recipe's formats; *compute* is what linears work in and what keys and values
are kept in; the *residual* flows between blocks. What an edge carries is in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from truecluster.api import DeviceContext, DType, Dtypes

FLOATS = (DType.FP32, DType.BF16, DType.FP16)


def offered(device: DeviceContext) -> tuple[Dtypes, ...]:
    """What the device does at its own speed, fp32 first, which every device does."""
    native = [dtype for dtype in FLOATS if dtype is DType.FP32 or device.native(dtype)]
    return tuple(Dtypes(dtype, device.residual(dtype)) for dtype in native)


def pick(wanted: DType, there: Sequence[Dtypes]) -> Dtypes:
    """The one of `offered` that computes in ``wanted``, else the one in fp32, which is never wrong."""
    return next((dtypes for dtypes in there if dtypes.compute is wanted), there[0])
