"""The kernel: which descriptions it takes, and what becomes of their tensors.

Linears over weights in quant groups see activations in two int8 parts, 15 bits with a scale per 32; over int8 weights
in int16, a scale per 128; over the others in fp32. A row's bits depend on nothing but the row and its sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from truecluster.api import Description, DType, Dtypes, Kernel, Packed, PluginError, Slot, Target, WeightFormat
from truecluster.nn import Attend, DecoderBlock, Embedding, Linear, Norm

from .blocks import bind_block, fits, fits_attend
from .handles import prepare, resident_bytes
from .layouts import layout_of
from .leaves import bind_attend, bind_embedding, bind_linear, bind_norm
from .native import library
from .workspace import Workspace

BINDERS: dict[type, Callable[..., Callable[..., Any]]] = {
    DecoderBlock: bind_block,
    Linear: bind_linear,
    Norm: bind_norm,
    Embedding: bind_embedding,
    Attend: bind_attend,
}
LEVELS = ("plain C, which is slow", "AVX2", "AVX-512")
"""Of ``tc_level``."""
DTYPES = Dtypes(compute=DType.FP32, residual=DType.FP32)


class CpuKernel(Kernel):
    """Decoder blocks, linears, norms, embeddings and attention on the host, in fp32."""

    invariant = True

    def __init__(self) -> None:
        self._workspace = Workspace()

    def unavailable(self) -> str | None:
        try:
            library()
        except PluginError as error:
            return str(error)
        return None

    def details(self) -> str:
        level = LEVELS[library().tc_level()]
        return level if library().tc_has_threads() else f"{level}, one thread: it was built without OpenMP"

    def accepts(self, description: Description, target: Target) -> bool:
        if type(description) not in BINDERS or target.device.kind != "cpu" or target.dtypes != DTYPES:
            return False
        if isinstance(description, DecoderBlock) and not fits(description):
            return False
        if isinstance(description, Attend) and not fits_attend(description):
            return False
        matrices = (slot for slot in description.slots() if len(slot.shape) > 1)
        return all(layout_of(target.formats[slot.key]) for slot in matrices)

    def prepare(self, slot: Slot, packed: Packed, target: Target) -> Any:
        return prepare(slot, packed, target.formats[slot.key])

    def bind(self, description: Description, handles: Mapping[str, Any], target: Target) -> Callable[..., Any]:
        return BINDERS[type(description)](description, handles, self._workspace)

    def resident_bytes(self, format: WeightFormat, shape: tuple[int, ...]) -> int:
        return resident_bytes(format, shape)
