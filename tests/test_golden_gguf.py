"""GGUF files in their own blocks give the tokens that transformers gives with the same files.

``tests/golden/from_gguf.py`` asked transformers. A greedy step whose margin is below 0.05 may go either way and is
left out; the tokens before it and, with those given, every other one must be equal.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import Layout, agreement, cluster
from goldens import goldens, real_model


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("model", "free"),
    [("smollm2-135m-instruct", 24), ("qwen2.5-coder-0.5b-instruct", 3)],
    ids=["smollm2", "qwen2.5-coder"],
)
def test_native_blocks_over_two_nodes(model: str, free: int, tmp_path: Path) -> None:
    """GGUF-09: SmolLM2's file has no output matrix; its embedding in Q8_0 is the head's too.

    ``free`` tokens are decoded without being given those before; Qwen's blocks are unpacked anew at each.
    """
    path, cases = real_model(f"{model}.gguf"), goldens(model, "gguf.json")
    with cluster(path, tmp_path, Layout(nodes=2, transport="memory", head="last-stage"), quant="native") as made:
        found = agreement(made, cases)
        assert found.equal == found.decidable
        answers = made.answer([case.ids for case in cases], free)
        for case, answer in zip(cases, answers, strict=True):
            firm = min(case.firm, free)
            assert tuple(answer[:firm]) == case.greedy[:firm]
