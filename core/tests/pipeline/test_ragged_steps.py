"""A stage driven by hand: whatever else is in a step, a sequence gets what it gets alone."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import torch
from tiny_models import TinyModel

from truecluster._pipeline.local import local_edge
from truecluster._pipeline.runner import StageRunner
from truecluster._pipeline.stage import Stage
from truecluster._registry import Registry
from truecluster._wire.steps import Kind, Opened, Page, Row, StepHeader, StepLimits, decode, encode
from truecluster.api import Span

RANDOM = torch.Generator().manual_seed(8)
DECODES, CHUNKED, TRUNCATED = (torch.randint(0, 61, (n,), generator=RANDOM).tolist() for n in (45, 60, 52))
CUT = 36
"""Where the third sequence goes back to, in its second page; other tokens follow."""
INSTEAD = torch.randint(0, 61, (9,), generator=RANDOM).tolist()


@attrs.frozen
class Feed:
    """Tokens of a sequence from a position on."""

    sequence: int
    position: int
    ids: Sequence[int]


STEPS = [
    [Feed(1, 0, DECODES[:40]), Feed(3, 0, TRUNCATED)],
    [Feed(1, 40, DECODES[40:41]), Feed(2, 0, CHUNKED[:23]), Feed(3, CUT, INSTEAD[:7])],
    [Feed(2, 23, CHUNKED[23:]), Feed(3, CUT + 7, INSTEAD[7:8]), Feed(1, 41, DECODES[41:42])],
    [Feed(3, CUT + 8, INSTEAD[8:]), Feed(1, 42, DECODES[42:])],
]
"""A decode, a prompt's chunks and a truncating sequence, in changing order."""
OPENED = {0: (1, 3), 1: (2,)}
PAGES = {0: (Page(1, 5), Page(3, 0), Page(1, 2), Page(3, 7)), 1: (Page(2, 1), Page(2, 6))}
FINAL = {1: DECODES, 2: CHUNKED, 3: TRUNCATED[:CUT] + INSTEAD}


def header(step: int) -> tuple[StepHeader, torch.Tensor]:
    feeds = STEPS[step]
    ids = torch.tensor([id for feed in feeds for id in feed.ids], dtype=torch.int32)
    return StepHeader(
        kind=Kind.RUN_PREFILL,
        run=1,
        step=step,
        count=len(ids),
        rows=tuple(Row(f.sequence, f.position, len(f.ids), len(f.ids)) for f in feeds),
        opened=tuple(Opened(sequence) for sequence in OPENED.get(step, ())),
        pages=PAGES.get(step, ()),
    ), ids


def scatter(results: Sequence[torch.Tensor], width: int) -> dict[int, torch.Tensor]:
    """Sequence → hidden rows at its positions, the latest where it was truncated."""
    found = {sequence: torch.full((len(ids), width), torch.nan) for sequence, ids in FINAL.items()}
    for feeds, result in zip(STEPS, results, strict=True):
        start = 0
        for feed in feeds:
            rows = result[start : start + len(feed.ids)]
            kept = min(len(rows), len(FINAL[feed.sequence]) - feed.position)
            found[feed.sequence][feed.position : feed.position + kept] = rows[:kept]
            start += len(feed.ids)
    return found


def alone(stage: Stage, sequence: int) -> torch.Tensor:
    """The sequence's final tokens as one prompt in a stage of its own."""
    ids = torch.tensor(FINAL[sequence], dtype=torch.int32)
    rows = (Row(0, 0, len(ids), len(ids)),)
    pages = (Page(0, 0), Page(0, 1))
    one = StepHeader(kind=Kind.RUN_PREFILL, run=1, step=0, count=len(ids), rows=rows, opened=(Opened(0),), pages=pages)
    with torch.inference_mode():
        return stage.execute(one, ids)[0].clone()


def by_hand(stage: Stage) -> list[torch.Tensor]:
    with torch.inference_mode():
        return [stage.execute(*header(step))[0].clone() for step in range(len(STEPS))]


def through_threads(stages: Sequence[Stage]) -> list[torch.Tensor]:
    """Over edges, with two steps in flight."""
    edges = [local_edge() for _ in range(len(stages) + 1)]
    faults: list[Exception] = []
    runners = [StageRunner(s, 1, edges[i][1], edges[i + 1][0], faults.append) for i, s in enumerate(stages)]
    for runner in runners:
        runner.start()
    results: list[torch.Tensor] = []

    def place(data: bytes) -> list[torch.Tensor]:
        answer = decode(data, StepLimits())
        assert (answer.kind, answer.step) == (Kind.HIDDEN_STATE, len(results))
        results.append(torch.empty(answer.count, answer.width))
        return [results[-1]]

    for step in range(len(STEPS)):
        head, ids = header(step)
        edges[0][0].send(encode(head), [ids])
        if step:
            edges[-1][1].recv(place)
    edges[-1][1].recv(place)
    assert not faults
    ended = [runner.stop(10) for runner in runners]
    assert all(ended)
    return results


SPLITS = {
    "1 stage": [Span(0, 3, embed=True)],
    "2 stages": [Span(0, 2, embed=True), Span(2, 3)],
    "embed and 2 stages": [Span(0, 0, embed=True), Span(0, 1), Span(1, 3)],
}


def ragged(model: TinyModel, split: str) -> dict[int, torch.Tensor]:
    stages = [model.stage(span, pages=8, sequences=3, max_tokens=128) for span in SPLITS[split]]
    results = by_hand(stages[0]) if len(stages) == 1 else through_threads(stages)
    return scatter(results, model.config.hidden)


@pytest.mark.parametrize("split", SPLITS)
def test_with_the_reference_a_sequence_is_as_alone_within_1e_4(split):
    model = TinyModel.make()
    found = ragged(model, split)
    for sequence, rows in found.items():
        expected = alone(model.stage(Span(0, 3, embed=True), max_tokens=128), sequence)
        torch.testing.assert_close(rows, expected, atol=1e-4, rtol=1e-5)
        logits = torch.einsum("nh,vh->nv", norm(model, rows), model.weights["head.output"].double())
        torch.testing.assert_close(logits, model.logits(FINAL[sequence]), atol=1e-4, rtol=1e-5)


def norm(model: TinyModel, rows: torch.Tensor) -> torch.Tensor:
    wide = rows.double()
    return wide / (wide.pow(2).mean(-1, keepdim=True) + model.config.eps).sqrt() * model.weights["head.norm"].double()


@pytest.fixture(scope="module")
def installed() -> Registry:
    registry = Registry.installed()
    names = [name for name, _, _ in registry.kernels().available]
    if "cpu" not in names:
        pytest.skip("the cpu kernel is not built on this machine")
    return registry


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("format", ["fp32", "fp16", "int8", "int4.g32.asym"])
def test_with_an_invariant_kernel_a_sequence_is_as_alone_bit_for_bit(installed, split, format):
    """NUM-06: whatever else is in the steps, however prompts are chunked and layers split."""
    model = TinyModel.make()
    model.registry, model.format, model.vectors = installed, installed.format(format), installed.format("fp32")
    found = ragged(model, split)
    for sequence, rows in found.items():
        assert torch.equal(rows, alone(model.stage(Span(0, 3, embed=True), max_tokens=128), sequence))
