"""The block layouts of ggml, unpacked in plain torch on any device.

Each function takes ``blocks [n, bytes]`` uint8 and gives ``[n, elements]`` fp32. The order of multiplications is that
of ggml's own reference, so the results are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from .k import q2_k, q3_k, q4_k, q5_k, q6_k
from .lattice import iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs
from .plain import q4_0, q4_1, q5_0, q5_1, q8_0
from .tables import iq4_nl, iq4_xs, mxfp4, nvfp4
from .ternary import tq1_0, tq2_0

_ALL = (
    *(q4_0, q4_1, q5_0, q5_1, q8_0),
    *(q2_k, q3_k, q4_k, q5_k, q6_k),
    *(iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq4_nl, iq4_xs),
    *(tq1_0, tq2_0, mxfp4, nvfp4),
)

UNPACK: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {f"gguf.{layout.__name__}": layout for layout in _ALL}
