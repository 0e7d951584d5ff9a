"""What is asked: prompts that share no beginning, of lengths from a mix, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs

WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem "
    "hand part place case week company system program question work government number night point home water room "
    "mother area money story fact month lot right study book eye job word business issue side kind head house"
)
"""Most tokenizers have one token for each, with the space before it."""


@attrs.frozen(kw_only=True)
class Mix:
    """Every request has one of ``prompts`` and one of ``answers``, in tokens, drawn by itself.

    A prompt's length is in words, so about right; what the server counted is what is reported.
    """

    prompts: Sequence[int] = (32, 128, 512)
    answers: Sequence[int] = (32, 64, 128)
    chat: bool = False
    extra: dict[str, Any] = attrs.field(factory=dict)

    def bodies(self, count: int, seed: int) -> list[dict[str, Any]]:
        """``count`` requests."""
        chance = random.Random(seed)
        return [self._body(chance) for _ in range(count)]

    def _body(self, chance: random.Random) -> dict[str, Any]:
        prompt, most = text(chance.choice(self.prompts), chance), chance.choice(self.answers)
        asked = {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        return {**asked, "max_tokens": most, "temperature": 0, **self.extra}


def text(words: int, chance: random.Random) -> str:
    """So many words at random."""
    return " ".join(chance.choices(WORDS.split(), k=words))


def counting(start: int) -> str:
    """A prompt of some twenty tokens that models continue for as long as they are let, in ASCII."""
    return "".join(f"{start + i}, " for i in range(4)).rstrip()
