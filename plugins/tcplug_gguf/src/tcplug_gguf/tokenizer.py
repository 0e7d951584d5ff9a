"""From a file's vocabulary to the text of a ``tokenizer.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from truecluster.api import CheckpointError, TokenizerData

from .byte_level import adds_bos, byte_level
from .keys import Keys
from .sentencepiece import sentencepiece
from .vocabulary import PREFIX, Vocabulary, read_vocabulary, special_token


@attrs.frozen
class Kind:
    """One value of ``tokenizer.ggml.model``; ``adds_bos`` says whether its models begin with bos by themselves."""

    parts: Callable[[Keys, Vocabulary], dict[str, Any]]
    adds_bos: Callable[[Keys], bool]
    summary: str


KINDS: Mapping[str, Kind] = {
    "gpt2": Kind(byte_level, adds_bos, "byte-level BPE"),
    "llama": Kind(sentencepiece, lambda keys: True, "SentencePiece's BPE"),
}


def build_tokenizer(keys: Keys) -> TokenizerData:
    """The tokenizer. Raises `CheckpointError` naming the key that is missing, wrong or of an unsupported kind.

    ``add_bos`` is the file's, else what its models do. No post-processor: it's the caller who adds.
    """
    kind = _kind(keys)
    keys.only(PREFIX + "add_eos_token", False)
    vocabulary = read_vocabulary(keys)
    bos, eos = (special_token(keys, name, vocabulary.tokens) for name in ("bos", "eos"))
    add_bos = keys.optional(PREFIX + "add_bos_token", bool, kind.adds_bos(keys))
    if add_bos and bos is None:
        raise CheckpointError(
            f"{keys.path}: {PREFIX}add_bos_token asks for a token, but {PREFIX}bos_token_id is missing"
        )
    made = {"version": "1.0", "added_tokens": vocabulary.added(), **kind.parts(keys, vocabulary)}
    return TokenizerData(json=json.dumps(made, ensure_ascii=False), bos=bos, eos=eos, add_bos=add_bos)


def _kind(keys: Keys) -> Kind:
    model = keys.required(PREFIX + "model", str)
    if model not in KINDS:
        raise CheckpointError(
            f"{keys.path}: {PREFIX}model is {model!r}; "
            f"supported: {', '.join(f'{name!r} ({kind.summary})' for name, kind in KINDS.items())}. "
            "Use the model's Hugging Face folder or hub id, which brings a tokenizer.json"
        )
    return KINDS[model]
