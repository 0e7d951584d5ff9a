"""The dtype to compute in, which no key of a GGUF file says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from .header import Place

_NAMES = {"fp32": "float32", "fp16": "float16"}


def compute_dtype(places: Iterable[Place]) -> str:
    """As a config.json has it: the dtype that most elements of the matrices lie in; for blocks ``bfloat16``.

    Blocks were made of weights in bfloat16 or wider, and float16 overflows where those didn't. A device that hasn't
    got a dtype computes in float32, as always.
    """
    elements: Counter[str] = Counter()
    for place in places:
        if len(place.shape) > 1:
            elements[_NAMES.get(place.kind.format, "bfloat16")] += math.prod(place.shape)
    return max(elements, key=lambda name: elements[name], default="float32")
