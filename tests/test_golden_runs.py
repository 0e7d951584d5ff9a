"""The same golden tokens over processes and sockets: both heads, both containers, both models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from clusters import Cluster, Layout, agreement, cluster
from goldens import Golden, goldens

FEW = 16
SMOLLM2, QWEN = "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct"


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all: each model is packed once."""
    return tmp_path_factory.mktemp("weights")


def check(made: Cluster, cases: Sequence[Golden]) -> None:
    """Every decidable step, and every token of a free answer up to the first step that could go either way."""
    found = agreement(made, cases)
    assert found.equal == found.decidable
    prompts = [case.ids for case in cases]
    answers = made.answer(prompts, max(len(case.greedy) for case in cases))
    for case, answer in zip(cases, answers, strict=True):
        assert tuple(answer[: case.firm]) == case.greedy[: case.firm]
    alone = made.answer(prompts, FEW, together=False)
    assert alone == [answer[:FEW] for answer in answers], "whatever the margin, no token depends on batch mates"


@pytest.mark.parametrize(
    "layout",
    [
        Layout(nodes=3, transport="memory", head="coordinator"),
        Layout(nodes=2, transport="tcp", head="coordinator"),
        Layout(nodes=2, transport="tcp", head="last-stage"),
        Layout(nodes=3, transport="tcp", node_options=("--edge-host", "none")),
    ],
    ids=str,
)
def test_smollm2_from_gguf(smollm2_gguf: Path, work_dir: Path, layout: Layout) -> None:
    with cluster(smollm2_gguf, work_dir, layout) as made:
        check(made, goldens(SMOLLM2))


def test_smollm2_from_a_folder(smollm2_folder: Path, work_dir: Path) -> None:
    with cluster(smollm2_folder, work_dir, Layout(nodes=2, transport="tcp", head="last-stage")) as made:
        check(made, goldens(SMOLLM2))


def test_qwen(qwen_folder: Path, work_dir: Path) -> None:
    with cluster(qwen_folder, work_dir, Layout(nodes=2, transport="tcp")) as made:
        check(made, goldens(QWEN))
