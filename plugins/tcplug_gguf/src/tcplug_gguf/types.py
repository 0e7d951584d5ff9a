"""The numbers of the GGUF specification: value types of keys, and tensor types with their block sizes."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

STRING, ARRAY, BOOL = 8, 9, 7

SCALARS: Mapping[int, tuple[str, str, int]] = {
    0: ("uint8", "B", 1),
    1: ("int8", "b", 1),
    2: ("uint16", "H", 2),
    3: ("int16", "h", 2),
    4: ("uint32", "I", 4),
    5: ("int32", "i", 4),
    6: ("float32", "f", 4),
    BOOL: ("bool", "B", 1),
    10: ("uint64", "Q", 8),
    11: ("int64", "q", 8),
    12: ("float64", "d", 8),
}
"""Value type → name, `struct` code, bytes."""


@attrs.frozen
class TensorType:
    """``block`` elements lie in ``nbytes`` bytes; ``format`` is the format id that reads them."""

    name: str
    format: str
    block: int
    nbytes: int


TENSOR_TYPES: Mapping[int, TensorType] = {
    0: TensorType("F32", "fp32", 1, 4),
    1: TensorType("F16", "fp16", 1, 2),
    2: TensorType("Q4_0", "gguf.q4_0", 32, 18),
    3: TensorType("Q4_1", "gguf.q4_1", 32, 20),
    6: TensorType("Q5_0", "gguf.q5_0", 32, 22),
    8: TensorType("Q8_0", "gguf.q8_0", 32, 34),
    12: TensorType("Q4_K", "gguf.q4_k", 256, 144),
    13: TensorType("Q5_K", "gguf.q5_k", 256, 176),
    14: TensorType("Q6_K", "gguf.q6_k", 256, 210),
    30: TensorType("BF16", "bf16", 1, 2),
}

SUPPORTED = ", ".join(kind.name for kind in TENSOR_TYPES.values())
