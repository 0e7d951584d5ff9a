"""Which tokens end an answer."""

from __future__ import annotations

from .cursor import Array
from .keys import Keys
from .vocabulary import CONTROL, PREFIX

KNOWN = frozenset({"<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<end_of_turn>"})
"""Control tokens that end a turn or a text wherever a model has them; files often name only one of two."""


def ending_ids(keys: Keys) -> list[int]:
    """The ids that the keys name for end of text, turn and message, then those of `KNOWN`, each once."""
    names = [f"{PREFIX}{name}_token_id" for name in ("eos", "eot", "eom")]
    named = [keys.required(name, int) for name in names if name in keys.values]
    return list(dict.fromkeys(named + _known(keys)))


def _known(keys: Keys) -> list[int]:
    if not all(isinstance(keys.values.get(PREFIX + name), Array) for name in ("tokens", "token_type")):
        return []
    tokens, kinds = keys.strings(PREFIX + "tokens"), keys.integers(PREFIX + "token_type")
    return [
        id for id, (token, kind) in enumerate(zip(tokens, kinds, strict=False)) if kind == CONTROL and token in KNOWN
    ]
