"""From a file's vocabulary to the text of a ``tokenizer.json``: byte-level BPE."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truecluster.api import CheckpointError, TokenizerData

from .keys import Keys
from .pretokenizers import PRE_TOKENIZERS, PreTokenizer

UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 2, 3, 4, 5
"""Token types of the GGUF specification; any other stands for text."""
PREFIX = "tokenizer.ggml."


def build_tokenizer(keys: Keys) -> TokenizerData:
    """The tokenizer. Raises `CheckpointError` naming the key that is missing, wrong or of an unsupported kind.

    ``add_bos`` is the file's, else what the pre-tokenizer's models do. No post-processor: it's the caller who adds.
    """
    _refuse_other_models(keys)
    pre = _pre_tokenizer(keys)
    tokens, kinds = keys.strings(PREFIX + "tokens"), keys.integers(PREFIX + "token_type")
    if len(tokens) != len(kinds):
        raise CheckpointError(f"{keys.path}: {PREFIX}token_type has {len(kinds)} items for {len(tokens)} tokens")
    vocabulary = _vocabulary(keys.path, tokens, kinds)
    merges = _merges(keys, vocabulary)
    bos, eos = (_special(keys, f"{PREFIX}{name}_token_id", tokens) for name in ("bos", "eos"))
    add_bos = keys.optional(PREFIX + "add_bos_token", bool, pre.add_bos)
    if add_bos and bos is None:
        raise CheckpointError(
            f"{keys.path}: {PREFIX}add_bos_token asks for a token, but {PREFIX}bos_token_id is missing"
        )
    return TokenizerData(
        json=json.dumps(_tokenizer_json(pre, vocabulary, merges, _added(tokens, kinds)), ensure_ascii=False),
        bos=bos,
        eos=eos,
        add_bos=add_bos,
    )


def _refuse_other_models(keys: Keys) -> None:
    model = keys.required(PREFIX + "model", str)
    if model != "gpt2":
        raise CheckpointError(
            f"{keys.path}: {PREFIX}model is {model!r}; supported: 'gpt2' (byte-level BPE). "
            "Use the model's Hugging Face folder or hub id, which brings a tokenizer.json"
        )


def _pre_tokenizer(keys: Keys) -> PreTokenizer:
    name = keys.required(PREFIX + "pre", str)
    if name not in PRE_TOKENIZERS:
        raise CheckpointError(
            f"{keys.path}: {PREFIX}pre is {name!r}; supported: {', '.join(sorted(PRE_TOKENIZERS))}. "
            "Use the model's Hugging Face folder or hub id, which brings a tokenizer.json"
        )
    return PRE_TOKENIZERS[name]


def _vocabulary(path: Path, tokens: list[str], kinds: list[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for id, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind != UNUSED and found.setdefault(token, id) != id:
            raise CheckpointError(f"{path}: {PREFIX}tokens has {token!r} twice, as {found[token]} and {id}")
    return found


def _merges(keys: Keys, vocabulary: Mapping[str, int]) -> list[str]:
    merges = keys.strings(PREFIX + "merges")
    for index, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise CheckpointError(f"{keys.path}: item {index} of {PREFIX}merges, {merge!r}, joins no tokens to a token")
    return merges


def _special(keys: Keys, key: str, tokens: list[str]) -> str | None:
    if key not in keys.values:
        return None
    id = keys.required(key, int)
    if not 0 <= id < len(tokens):
        raise CheckpointError(f"{keys.path}: {key} is {id}, but there are {len(tokens)} tokens")
    return tokens[id]


def _added(tokens: list[str], kinds: list[int]) -> list[dict[str, Any]]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": id, "content": token, **flags, "special": kind != USER_DEFINED}
        for id, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]


def _tokenizer_json(
    pre: PreTokenizer, vocabulary: Mapping[str, int], merges: list[str], added: list[dict[str, Any]]
) -> dict[str, Any]:
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    cuts = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in pre.patterns]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if pre.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, bytes_only]},
        "post_processor": None,
        "decoder": bytes_only,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre.ignore_merges,
            "vocab": vocabulary,
            "merges": merges,
        },
    }
