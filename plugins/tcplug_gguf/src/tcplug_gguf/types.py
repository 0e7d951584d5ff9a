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


_FLOATS = {"F32": (0, "fp32", 4), "F16": (1, "fp16", 2), "BF16": (30, "bf16", 2)}
"""Name → number, format id, bytes of an element."""

_BLOCKS = {
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "IQ2_XXS": (16, 256, 66),
    "IQ2_XS": (17, 256, 74),
    "IQ3_XXS": (18, 256, 98),
    "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18),
    "IQ3_S": (21, 256, 110),
    "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136),
    "IQ1_M": (29, 256, 56),
    "TQ1_0": (34, 256, 54),
    "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17),
    "NVFP4": (40, 64, 36),
}
"""Name → number, elements and bytes of a block."""

TENSOR_TYPES: Mapping[int, TensorType] = {
    **{number: TensorType(name, format, 1, nbytes) for name, (number, format, nbytes) in _FLOATS.items()},
    **{number: TensorType(name, f"gguf.{name.lower()}", *block) for name, (number, *block) in _BLOCKS.items()},
}

UNSUPPORTED: Mapping[int, str] = {
    **{9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 41: "Q1_0"},
    **{4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8"},
    **{36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8"},
}
"""Numbers with a meaning that isn't read here: no weights of a model, not held to a reference, or withdrawn."""

SUPPORTED = ", ".join(kind.name for kind in TENSOR_TYPES.values())
