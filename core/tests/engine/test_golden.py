"""Real weights: SmolLM2's GGUF against what transformers computes, on one to three stages with both heads."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from local_runs import LocalFactory, spans, start_run

from truecluster._cluster.model import ClusterModel, ModelOptions, load_model
from truecluster._engine.engine import Engine
from truecluster._engine.requests import FinishedEvent, Request, TokenEvent
from truecluster._pipeline.build import HandleCache, StageFacts, build_stage
from truecluster._pipeline.run import Step
from truecluster._pipeline.stage import Stage
from truecluster._registry import Registry, Selection
from truecluster._wire.steps import Opened, Page, Row
from truecluster.api import DType, Dtypes, Span
from truecluster.nn import PAGE

MODEL = "smollm2-135m-instruct"
PROMPTS = json.loads((Path(__file__).parents[3] / "tests" / "golden" / "golden.json").read_text())[MODEL]
DECIDABLE = 0.05
"""Margin of logits from which on a step must agree."""
FREE = 24
"""Tokens that are decoded freely."""


@attrs.frozen(eq=False)
class Real:
    """The model under one recipe, with the kernels of one registry."""

    model: ClusterModel
    registry: Registry
    handles: HandleCache = attrs.field(factory=HandleCache)

    def stage(self, span: Span) -> Stage:
        bound = self.model.bound
        slots = dict.fromkeys(s for part in span.parts() for s in bound.architecture.slots(bound.config, part))
        facts = StageFacts(
            span=span,
            architecture=bound.architecture,
            config=bound.config,
            dtypes=Dtypes(DType.FP32, DType.FP32),
            inbound=DType.INT32 if span.embed else DType.FP32,
            outbound=DType.INT32 if span.head else DType.FP32,
            units=self.model.catalog.units(slots),
            pages=32,
            sequences=len(PROMPTS),
            max_tokens=512,
            step_timeout=30.0,
        )
        device = self.registry.resolve("device", "cpu")().open("cpu", 2)
        return build_stage(facts, self.registry, device, self.model.catalog.read, self.handles)

    def stages(self, count: int, head: str) -> list[Stage]:
        return [self.stage(span) for span in spans(self.model.bound.config.layers, count, head)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Real]]:
    """``real(quant, deny)``: the GGUF file run as the card runs it, by the architecture that hosts it."""
    file = Path(os.environ.get("TRUECLUSTER_MODELS", "/nowhere"), f"{MODEL}.gguf")
    if not file.exists():
        pytest.skip("set TRUECLUSTER_MODELS to a folder that has smollm2-135m-instruct.gguf")
    work, made = tmp_path_factory.mktemp("weights"), {}

    def make(quant: str, deny: tuple[str, ...] = ()) -> Real:
        if (quant, deny) not in made:
            registry = Registry.installed(Selection(deny=deny))
            options = ModelOptions(reference=str(file), arch="qwen2", quant=quant, work_dir=work)
            made[quant, deny] = Real(load_model(registry, options), registry)
        return made[quant, deny]

    yield make
    for each in made.values():
        each.model.bound.checkpoint.close()
    shutil.rmtree(work, ignore_errors=True)


def forced() -> Step:
    """Every prompt with its golden tokens, as one ragged step that asks for a token at each golden one."""
    rows, ids, pages = [], [], []
    for number, prompt in enumerate(PROMPTS):
        fed = prompt["ids"] + prompt["greedy"][:-1]
        rows.append(Row(number, 0, len(fed), len(prompt["greedy"])))
        ids += fed
        pages += [Page(number, len(pages) + i) for i in range(-(-len(fed) // PAGE))]
    opened = tuple(Opened(number) for number in range(len(PROMPTS)))
    return Step(rows=tuple(rows), ids=ids, opened=opened, pages=tuple(pages), prefill=True)


def check_forced(tokens: Sequence[int]) -> None:
    """Equal at every decidable step of every prompt."""
    golden = [token for prompt in PROMPTS for token in prompt["greedy"]]
    margins = [margin for prompt in PROMPTS for margin in prompt["greedy_margin"]]
    assert len(tokens) == len(golden) == 162
    wrong = [i for i, m in enumerate(margins) if m >= DECIDABLE and tokens[i] != golden[i]]
    assert not wrong, f"{len(wrong)} decidable steps differ"


LAYOUTS = [(count, head) for count in (1, 2, 3) for head in ("coordinator", "last-stage")]


@pytest.mark.parametrize(("count", "head"), LAYOUTS)
def test_every_decidable_token_is_the_golden_one(real, count, head):
    local = start_run(real("fp16").stages(count, head))
    local.run.send(forced())
    check_forced(local.run.receive().ids)
    local.stop()


@pytest.mark.parametrize("deny", [(), ("tcplug-cpu-kernels",)], ids=["kernels", "reference"])
def test_so_it_is_with_the_files_own_blocks(real, deny):
    """``native`` keeps the blocks of Q4_1 as they lie in the file."""
    model = real("native", deny)
    formats = {model.model.catalog.format(slot).id for slot in model.model.bound.slots.values()}
    assert "gguf.q4_1" in formats
    local = start_run(model.stages(1, "last-stage"))
    local.run.send(forced())
    check_forced(local.run.receive().ids)
    local.stop()


def test_the_ten_largest_logits_behind_a_prompt_are_within_1e_2(real):
    model = real("fp16")
    stages, heard = model.stages(1, "coordinator"), []
    head = stages[-1]._head
    stages[-1]._head = lambda hidden: heard.append(head(hidden)) or heard[-1]
    local = start_run(stages)
    local.run.send(forced())
    local.run.receive()
    local.stop()
    row, logits = 0, torch.cat(heard)
    for prompt in PROMPTS:
        top = logits[row].topk(10)
        expected = torch.tensor(prompt["top10_logits"])
        torch.testing.assert_close(top.values, expected, atol=1e-2, rtol=0)
        torch.testing.assert_close(logits[row][prompt["top10_ids"]], expected, atol=1e-2, rtol=0)
        row += len(prompt["greedy"])


def decoded(engine: Engine, prompt: dict[str, Any]) -> tuple[threading.Event, list[int]]:
    done, ids = threading.Event(), []

    def take(event: object) -> None:
        if isinstance(event, TokenEvent):
            ids.append(event.id)
        if isinstance(event, FinishedEvent):
            assert event.reason == "length", event
            done.set()

    request = Request(prompt=tuple(prompt["ids"]), max_tokens=min(FREE, len(prompt["greedy"])), eos=frozenset())
    engine.submit(request, take)
    return done, ids


@pytest.mark.parametrize(("count", "head"), LAYOUTS)
def test_free_decoding_is_golden_up_to_the_first_step_that_is_not_decidable(real, count, head):
    """All prompts at once."""
    factory = LocalFactory(lambda: real("fp16").stages(count, head))
    engine = Engine(factory)
    engine.start()
    try:
        for prompt, (done, ids) in [(prompt, decoded(engine, prompt)) for prompt in PROMPTS]:
            assert done.wait(60)
            shaky = [i for i, margin in enumerate(prompt["greedy_margin"]) if margin < DECIDABLE]
            until = min([FREE, *shaky])
            assert ids[:until] == prompt["greedy"][:until]
    finally:
        factory.close()
        engine.stop(20)
