"""Byte-level BPE, ``tokenizer.ggml.model`` = ``gpt2``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truecluster.api import CheckpointError

from .keys import Keys
from .pretokenizers import PRE_TOKENIZERS, PreTokenizer
from .vocabulary import PREFIX, Vocabulary


def byte_level(keys: Keys, vocabulary: Vocabulary) -> dict[str, Any]:
    """Normalizer, cuts, decoder and model of a tokenizer.json."""
    pre = _pre_tokenizer(keys)
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    cuts = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in pre.patterns]
    return {
        "normalizer": {"type": "NFC"} if pre.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, bytes_only]},
        "decoder": bytes_only,
        "model": {
            "type": "BPE",
            "ignore_merges": pre.ignore_merges,
            "vocab": vocabulary.ids,
            "merges": _merges(keys, vocabulary.ids),
        },
    }


def adds_bos(keys: Keys) -> bool:
    """What the models with this pre-tokenizer do where the file doesn't say."""
    return _pre_tokenizer(keys).add_bos


def _pre_tokenizer(keys: Keys) -> PreTokenizer:
    name = keys.required(PREFIX + "pre", str)
    if name not in PRE_TOKENIZERS:
        raise CheckpointError(
            f"{keys.path}: {PREFIX}pre is {name!r}; supported: {', '.join(sorted(PRE_TOKENIZERS))}. "
            "Use the model's Hugging Face folder or hub id, which brings a tokenizer.json"
        )
    return PRE_TOKENIZERS[name]


def _merges(keys: Keys, ids: Mapping[str, int]) -> list[str]:
    merges = keys.strings(PREFIX + "merges")
    for index, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        if left not in ids or right not in ids or left + right not in ids:
            raise CheckpointError(f"{keys.path}: item {index} of {PREFIX}merges, {merge!r}, joins no tokens to a token")
    return merges
