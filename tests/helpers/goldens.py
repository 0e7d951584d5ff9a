"""Real models and what transformers answered with them; the files say in ``meta`` how they were made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

SHAKY = 0.05
"""A greedy step whose two best logits lie nearer than this may go either way."""
VARIABLE = "TRUECLUSTER_MODELS"


def real_model(name: str) -> Path:
    """A file or folder of the models; skips where there are none."""
    root = os.environ.get(VARIABLE)
    if not root:
        pytest.skip(f"{VARIABLE} doesn't say where the real models are")
    path = Path(root) / name
    if not path.exists():
        pytest.skip(f"{name} is not in {VARIABLE}")
    return path


@attrs.frozen(kw_only=True, eq=False)
class Golden:
    """One prompt, its token ids, and the greedy answer with each step's margin between its two best logits."""

    kind: str
    prompt: Any
    ids: tuple[int, ...]
    greedy: tuple[int, ...]
    margins: tuple[float, ...]

    @property
    def firm(self) -> int:
        """How many steps from the first one on must be equal in free decoding."""
        return next((step for step, margin in enumerate(self.margins) if margin < SHAKY), len(self.margins))

    @property
    def decidable(self) -> list[int]:
        """The steps that must be equal when every token before them is given."""
        return [step for step, margin in enumerate(self.margins) if margin >= SHAKY]


def goldens(model: str, file: str = "golden.json") -> list[Golden]:
    """The prompts of ``smollm2-135m-instruct`` or ``qwen2.5-coder-0.5b-instruct``, answered by what ``file`` says."""
    known = json.loads((Path(__file__).parents[1] / "golden" / file).read_text())
    return [
        Golden(
            kind=case["kind"],
            prompt=case["prompt"],
            ids=tuple(case["ids"]),
            greedy=tuple(case["greedy"]),
            margins=tuple(case["greedy_margin"]),
        )
        for case in known[model]
    ]
