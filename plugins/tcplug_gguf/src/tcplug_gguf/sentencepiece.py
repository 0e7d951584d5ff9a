"""SentencePiece's BPE, ``tokenizer.ggml.model`` = ``llama``: pieces with scores, spaces written as U+2581.

SentencePiece joins the two neighbours whose piece has the best score; as merges that is every pair that makes a
piece, in the order of the scores (Kudo and Richardson 2018; ``bpe_model.cc``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from truecluster.api import CheckpointError

from .keys import Keys
from .vocabulary import NORMAL, PREFIX, USER_DEFINED, Vocabulary, special_token

SPACE = "\u2581"
LONGEST = 256
"""Characters of a piece, which is cut at each of them; SentencePiece itself makes pieces of 16."""


def sentencepiece(keys: Keys, vocabulary: Vocabulary) -> dict[str, Any]:
    """Normalizer, cuts, decoder and model of a tokenizer.json."""
    _refuse_spaces(keys, vocabulary)
    keys.only(PREFIX + "remove_extra_whitespaces", False)
    prefix = keys.optional(PREFIX + "add_space_prefix", bool, True)
    spaces: dict[str, Any] = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    text: dict[str, Any] = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    strip: dict[str, Any] = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return {
        "normalizer": _sequence("normalizers", [{"type": "Prepend", "prepend": SPACE}] * prefix + [spaces]),
        "pre_tokenizer": None,
        "decoder": _sequence("decoders", [text, {"type": "ByteFallback"}, {"type": "Fuse"}, *[strip] * prefix]),
        "model": {
            "type": "BPE",
            "unk_token": special_token(keys, "unknown", vocabulary.tokens),
            "fuse_unk": True,
            "byte_fallback": all(f"<0x{byte:02X}>" in vocabulary.ids for byte in range(256)),
            "vocab": vocabulary.ids,
            "merges": _merges(keys, vocabulary),
        },
    }


def _sequence(name: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "Sequence", name: items}


def _refuse_spaces(keys: Keys, vocabulary: Vocabulary) -> None:
    for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True):
        if kind == USER_DEFINED and SPACE in token:
            raise CheckpointError(
                f"{keys.path}: the user-defined token {token!r} holds a space, which is not supported. "
                "Use the model's Hugging Face folder or hub id, which brings a tokenizer.json"
            )


def _merges(keys: Keys, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Pairs of normal pieces, best first; of equal scores the pair whose left piece comes first in the vocabulary."""
    scores = keys.numbers(PREFIX + "scores")
    if len(scores) != len(vocabulary.tokens):
        raise CheckpointError(
            f"{keys.path}: {PREFIX}scores has {len(scores)} items for {len(vocabulary.tokens)} tokens"
        )
    pieces = {token: id for token, id in vocabulary.ids.items() if vocabulary.kinds[id] == NORMAL}
    found = [
        (-scores[id], pieces[left], pieces[right], left, right)
        for piece, id in pieces.items()
        for left, right in _cuts(keys, piece)
        if left in pieces and right in pieces
    ]
    return [(left, right) for *_, left, right in sorted(found)]


def _cuts(keys: Keys, piece: str) -> Iterator[tuple[str, str]]:
    if len(piece) > LONGEST:
        raise CheckpointError(
            f"{keys.path}: {PREFIX}tokens has a piece of {len(piece)} characters; at most {LONGEST} are supported"
        )
    return ((piece[:place], piece[place:]) for place in range(1, len(piece)))
