"""Prompts, and what transformers answered to them; ``meta`` of the file says how it was made."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

FILE = Path(__file__).parents[2] / "tests" / "golden" / "golden.json"
MODEL = "smollm2-135m-instruct"


@attrs.frozen(kw_only=True)
class Case:
    """A prompt, its greedy answer, and at each step of the answer the margin between the two best logits."""

    ids: tuple[int, ...]
    greedy: tuple[int, ...]
    margins: tuple[float, ...]

    @property
    def fed(self) -> list[int]:
        """Everything that is given to the model when every token of the answer is."""
        return [*self.ids, *self.greedy[:-1]]


def cases() -> list[Case]:
    """SmolLM2's."""
    known = json.loads(FILE.read_text())[MODEL]
    return [
        Case(ids=tuple(each["ids"]), greedy=tuple(each["greedy"]), margins=tuple(each["greedy_margin"]))
        for each in known
    ]
