"""The tokens of a file with what each is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from truecluster.api import CheckpointError

from .keys import Keys

PREFIX = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""Token types of the GGUF specification; any other stands for text too."""


@attrs.frozen
class Vocabulary:
    """Tokens and their types by id; ``ids`` by token, without unused ones."""

    tokens: list[str]
    kinds: list[int]
    ids: Mapping[str, int]

    def added(self) -> list[dict[str, Any]]:
        """The ``added_tokens`` of a tokenizer.json: what is never made by merging."""
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        return [
            {"id": id, "content": token, **flags, "special": kind != USER_DEFINED}
            for id, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
            if kind in (UNKNOWN, CONTROL, USER_DEFINED)
        ]


def read_vocabulary(keys: Keys) -> Vocabulary:
    """Raises `CheckpointError` where tokens and types don't fit, or a token stands there twice."""
    tokens, kinds = keys.strings(PREFIX + "tokens"), keys.integers(PREFIX + "token_type")
    if len(tokens) != len(kinds):
        raise CheckpointError(f"{keys.path}: {PREFIX}token_type has {len(kinds)} items for {len(tokens)} tokens")
    found: dict[str, int] = {}
    for id, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind != UNUSED and found.setdefault(token, id) != id:
            raise CheckpointError(f"{keys.path}: {PREFIX}tokens has {token!r} twice, as {found[token]} and {id}")
    return Vocabulary(tokens, kinds, found)


def special_token(keys: Keys, name: str, tokens: list[str]) -> str | None:
    """The token that ``tokenizer.ggml.<name>_token_id`` names, ``None`` where there is no such key."""
    key = f"{PREFIX}{name}_token_id"
    if key not in keys.values:
        return None
    id = keys.required(key, int)
    if not 0 <= id < len(tokens):
        raise CheckpointError(f"{keys.path}: {key} is {id}, but there are {len(tokens)} tokens")
    return tokens[id]
