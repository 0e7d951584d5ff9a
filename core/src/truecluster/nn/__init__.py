"""Networks as data, their reference forward, and how they are lowered. Knows no network (of machines)."""

from .conventions import HUGGINGFACE_SLOTS, DecoderConfig, decoder_fields, unusual_layers
from .decoder import decoder_attention, decoder_embedding, decoder_head, decoder_mlp, decoder_norm
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
from .fields import flag, positive
from .gguf import GGUF_SLOTS, gguf_dialect
from .lowering import REFERENCE, Lowering, RankedKernel
from .reference import ReferenceKernel, attend_bytes
from .rope_config import read_rotary
from .rotary import attention_factor, inverse_frequencies, rotate, tables
from .state import PAGE, Batch, PagedState, RecurrentState, Row, SequenceState

__all__ = [
    "GGUF_SLOTS",
    "HUGGINGFACE_SLOTS",
    "PAGE",
    "REFERENCE",
    "Attend",
    "Attention",
    "Batch",
    "DecoderBlock",
    "DecoderConfig",
    "Embedding",
    "GatedMLP",
    "LanguageHead",
    "Linear",
    "Linears",
    "Lowering",
    "Norm",
    "PagedState",
    "RankedKernel",
    "RecurrentState",
    "ReferenceKernel",
    "Row",
    "SequenceState",
    "attend_bytes",
    "attention_factor",
    "decoder_attention",
    "decoder_embedding",
    "decoder_fields",
    "decoder_head",
    "decoder_mlp",
    "decoder_norm",
    "flag",
    "gguf_dialect",
    "inverse_frequencies",
    "positive",
    "read_rotary",
    "rotate",
    "tables",
    "torch_dtype",
    "unusual_layers",
]
