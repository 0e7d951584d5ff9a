"""Networks as data, their reference forward, and how they are lowered. Knows no network (of machines)."""

from .conventions import GGUF_SLOTS, HUGGINGFACE_SLOTS, DecoderConfig, decoder_fields, gguf_keys
from .descriptions import (
    Attend,
    Attention,
    DecoderBlock,
    Embedding,
    GatedMLP,
    LanguageHead,
    Linear,
    Linears,
    Norm,
)
from .dtypes import torch_dtype
from .lowering import REFERENCE, Lowering, RankedKernel
from .reference import ReferenceKernel
from .rotary import inverse_frequencies, rotate, tables
from .state import PAGE, Batch, PagedState, RecurrentState, Row, SequenceState

__all__ = [
    "Attend",
    "Attention",
    "Batch",
    "DecoderBlock",
    "Embedding",

    "DecoderConfig",
    "GGUF_SLOTS",
    "GatedMLP",
    "HUGGINGFACE_SLOTS",
    "LanguageHead",
    "Linear",
    "Linears",
    "Lowering",
    "Norm",
    "PAGE",
    "PagedState",
    "REFERENCE",
    "RankedKernel",
    "RecurrentState",
    "ReferenceKernel",
    "Row",
    "SequenceState",
    "decoder_fields",
    "gguf_keys",
    "inverse_frequencies",
    "rotate",
    "tables",
    "torch_dtype",
]
